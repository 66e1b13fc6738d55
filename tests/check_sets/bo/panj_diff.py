# Čebelnjak: napoved rojenja iz tehtnice, mikrofona in temperature panja.
# Diferencialna pozornost (Ye in sod. 2024): dve mapi softmax, druga se odšteje.
import math
import torch
import torch.nn as nn


def lambda_zacetna(plast):
    # plast šteje od 0
    return 0.8 - 0.6 * math.exp(-0.3 * plast)


class KorenNorma(nn.Module):
    def __init__(self, d, eps=1e-5):
        super().__init__()
        self.utez = nn.Parameter(torch.ones(d))
        self.eps = eps

    def forward(self, x):
        return self.utez * x * torch.rsqrt((x * x).mean(-1, keepdim=True) + self.eps)


class DiferencialnaPozornost(nn.Module):
    """
    Vhod x [B, T, D] (T = ure), izhod [B, T, D].  Vzročna: ura t vidi ure <= t.
    Vsaka glava ima dva para (q1,k1), (q2,k2) širine d in vrednost širine 2d.
        A = softmax(q1 k1' / sqrt(d)) - lambda * softmax(q2 k2' / sqrt(d))
    Uteži so lahko negativne in vrstica se sešteje v 1 - lambda.
    """

    def __init__(self, D=32, glave=2, plast=0):
        super().__init__()
        self.h = glave
        self.d = D // glave // 2
        self.Wq = nn.Linear(D, D, bias=False)
        self.Wk = nn.Linear(D, D, bias=False)
        self.Wv = nn.Linear(D, D, bias=False)
        self.Wo = nn.Linear(D, D, bias=False)
        self.l0 = lambda_zacetna(plast)
        for ime in ("lq1", "lk1", "lq2", "lk2"):
            self.register_parameter(ime, nn.Parameter(torch.randn(self.d) * 0.1))
        self.norma = KorenNorma(2 * self.d)

    def lam(self):
        return (self.lq1 @ self.lk1).exp() - (self.lq2 @ self.lk2).exp() + self.l0

    def forward(self, x):
        B, T, D = x.shape
        q = self.Wq(x).view(B, T, self.h, 2, self.d).permute(0, 2, 3, 1, 4)
        k = self.Wk(x).view(B, T, self.h, 2, self.d).permute(0, 2, 3, 1, 4)
        v = self.Wv(x).view(B, T, self.h, 2 * self.d).transpose(1, 2)
        ocene = q @ k.transpose(-1, -2) * self.d ** -0.5          # [B,h,2,T,T]
        prihodnost = torch.full((T, T), float("-inf"), device=x.device).triu(1)
        A = (ocene + prihodnost).softmax(-1)
        A = A[:, :, 0] - self.lam() * A[:, :, 1]
        y = self.norma(A @ v) * (1 - self.l0)
        return self.Wo(y.transpose(1, 2).reshape(B, T, D))


class NapovedRojenja(nn.Module):
    def __init__(self, senzorji=3, D=32, plasti=3):
        super().__init__()
        self.vhod = nn.Linear(senzorji, D)
        self.plasti = nn.ModuleList(
            nn.ModuleDict({"n": KorenNorma(D), "p": DiferencialnaPozornost(D, plast=i)})
            for i in range(plasti))
        self.izhod = nn.Linear(D, 1)

    def forward(self, meritve):
        h = self.vhod(meritve)
        for p in self.plasti:
            h = h + p["p"](p["n"](h))
        return self.izhod(h[:, -1]).squeeze(-1).sigmoid()


if __name__ == "__main__":
    m = NapovedRojenja()
    print("verjetnost rojenja:", m(torch.randn(2, 48, 3)).tolist())

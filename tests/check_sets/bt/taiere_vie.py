"""Robot de tăiat viţa de vie: alege lăstarii care rămân.

Pentru un butuc, relieful (distanţele dintre lăstari pe cordon) se calculează O SINGURĂ
DATĂ, la sosire; apoi camera se mişcă şi la fiecare cadru se vede altă parte din lăstari.
`relief` este deci refolosit la toate cadrele butucului.
"""
import torch
import torch.nn as nn


class Relief(nn.Module):
    """Bias de distanţă pe cap: -panta * |x_i - x_j| (metri pe cordon)."""

    def __init__(self, capete):
        super().__init__()
        self.panta = nn.Parameter(torch.logspace(-1, 1, capete))

    def forward(self, pozitii):
        d = (pozitii[:, :, None] - pozitii[:, None, :]).abs()
        return -self.panta.view(1, -1, 1, 1) * d[:, None]


class Lastar(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.fc = nn.Sequential(nn.Linear(5, dim), nn.ReLU(), nn.Linear(dim, dim))

    def forward(self, x):
        return self.fc(x)       # grosime, unghi, nr. ochi, vigoare, lignificare


class AtentieLastari(nn.Module):
    """x [B,N,dim], relief [B,H,N,N], vizibil [B,N] (True = se vede în cadrul curent).

    Lăstarii ascunşi nu sunt citiţi în cadrul curent. Cel puţin unul este vizibil.
    """

    def __init__(self, dim=20, capete=2):
        super().__init__()
        self.capete = capete
        self.proj = nn.ModuleDict({n: nn.Linear(dim, dim) for n in ("q", "k", "v", "o")})
        self.scara = (dim / capete) ** -0.5

    def capuri(self, t):
        return t.reshape(*t.shape[:2], self.capete, -1).transpose(1, 2)

    def forward(self, x, relief, vizibil):
        q, k, v = (self.capuri(self.proj[n](x)) for n in "qkv")
        scor = self.scara * torch.matmul(q, k.transpose(-2, -1))
        bias = relief.masked_fill_(~vizibil[:, None, None, :], float("-inf"))
        pondere = (scor + bias).softmax(-1)
        y = torch.matmul(pondere, v).transpose(1, 2).flatten(2)
        return self.proj["o"](y)


class Butuc:
    """Starea pentru un butuc: relieful şi media rulantă a notelor."""

    def __init__(self, relief):
        self.relief = relief
        self.suma = None
        self.cadre = 0

    def adauga(self, note):
        self.suma = note if self.suma is None else self.suma + note
        self.cadre += 1
        return self.suma / self.cadre


class Foarfeca(nn.Module):
    def __init__(self, dim=20, capete=2):
        super().__init__()
        self.lastar, self.relief = Lastar(dim), Relief(capete)
        self.atentie = AtentieLastari(dim, capete)
        self.nota = nn.Linear(dim, 1)

    def soseste(self, pozitii):
        with torch.no_grad():
            return Butuc(self.relief(pozitii))

    def cadru(self, butuc, trasaturi, vizibil):
        h = self.lastar(trasaturi)
        h = h + self.atentie(h, butuc.relief, vizibil)
        return butuc.adauga(self.nota(h).squeeze(-1))


@torch.no_grad()
def main():
    f = Foarfeca()
    butuc = f.soseste(torch.rand(1, 8).sort(-1).values * 1.2)
    for _ in range(3):
        viz = torch.rand(1, 8) > 0.3
        viz[:, 0] = True
        nota = f.cadru(butuc, torch.randn(1, 8, 5), viz)
    print("se taie:", (nota < 0).nonzero()[:, 1].tolist())


if __name__ == "__main__":
    main()

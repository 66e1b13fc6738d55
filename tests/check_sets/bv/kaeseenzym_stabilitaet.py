"""Schmelzpunkt von Labenzymen aus der Sequenz - kleiner Encoder mit SDPA.

Attention-Dropout wirkt nur im Training; bei der Auswertung ist das Netz deterministisch.
Nach jeder Auswertung wird normal weitertrainiert.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

AA = "ACDEFGHIKLMNPQRSTVWY"
INDEX = {a: i + 1 for i, a in enumerate(AA)}     # 0 = Füllzeichen


def kodiere(sequenzen):
    n = max(map(len, sequenzen))
    t = torch.zeros(len(sequenzen), n, dtype=torch.long)
    for z, s in zip(t, sequenzen):
        z[: len(s)] = torch.tensor([INDEX.get(a, 0) for a in s])
    return t


class RestAttention(nn.Module):
    def __init__(self, dim, koepfe, abwurf=0.1):
        super().__init__()
        self.koepfe = koepfe
        self.abwurf = abwurf
        self.ein = nn.Linear(dim, 3 * dim)
        self.aus = nn.Linear(dim, dim)

    def forward(self, x, echt=None):
        """x: [B, L, dim]; echt: [B, L] bool, True = Aminosäure, False = Füllung."""
        B, L, D = x.shape
        if not self.training:
            self.abwurf = 0.0
        q, k, v = self.ein(x).view(B, L, 3, self.koepfe, D // self.koepfe).permute(2, 0, 3, 1, 4).unbind(0)
        sicht = None if echt is None else echt[:, None, None, :]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=sicht, dropout_p=self.abwurf)
        return self.aus(y.transpose(1, 2).reshape(B, L, D))


class Lage(nn.Module):
    def __init__(self, dim, koepfe, abwurf):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.att = RestAttention(dim, koepfe, abwurf)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Dropout(abwurf), nn.Linear(4 * dim, dim))

    def forward(self, x, echt):
        x = x + self.att(self.n1(x), echt)
        return x + self.ff(self.n2(x))


class Schmelzpunkt(nn.Module):
    def __init__(self, dim=32, koepfe=4, lagen=2, abwurf=0.1, max_len=600):
        super().__init__()
        self.emb = nn.Embedding(len(AA) + 1, dim, padding_idx=0)
        self.ort = nn.Embedding(max_len, dim)
        self.lagen = nn.ModuleList(Lage(dim, koepfe, abwurf) for _ in range(lagen))
        self.kopf = nn.Linear(dim, 1)

    def forward(self, tok):
        echt = tok != 0
        x = self.emb(tok) + self.ort(torch.arange(tok.shape[1], device=tok.device))
        for l in self.lagen:
            x = l(x, echt)
        x = x.masked_fill(~echt[..., None], 0).sum(1) / echt.sum(1, keepdim=True)
        return self.kopf(x).squeeze(-1)


def epoche(modell, opt, tok, ziel):
    modell.train()
    opt.zero_grad()
    verlust = F.mse_loss(modell(tok), ziel)
    verlust.backward()
    opt.step()
    modell.eval()
    with torch.no_grad():
        return F.mse_loss(modell(tok), ziel).item()


if __name__ == "__main__":
    m = Schmelzpunkt()
    print(epoche(m, torch.optim.Adam(m.parameters()), kodiere(["MKVLA", "GGHT"]), torch.tensor([51.0, 60.5])))

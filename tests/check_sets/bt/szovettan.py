"""Szövettani metszetek (májbiopszia) osztályozása csempékből.

Egy metszet legfeljebb N csempe; a rövidebbek végén kitöltés áll.
valos[b, n] = True, ha a csempe igazi. Kitöltő csempére senki sem nézhet.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Csempe(nn.Module):
    """Apró konvolúciós kódoló; egy csempe -> egy vektor."""

    def __init__(self, dim):
        super().__init__()
        self.c1 = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.c2 = nn.Conv2d(8, dim, 3, stride=2, padding=1)

    def forward(self, kep):
        b, n = kep.shape[:2]
        h = F.relu(self.c1(kep.flatten(0, 1)))
        h = F.relu(self.c2(h)).mean((2, 3))
        return h.view(b, n, -1)


class Helyzet(nn.Module):
    # a csempe közepe a metszeten, mm-ben
    def __init__(self, dim):
        super().__init__()
        self.lin = nn.Linear(2, dim, bias=False)

    def forward(self, xy):
        return self.lin(torch.sin(xy))


class CsempeFigyelem(nn.Module):
    """Többfejű önfigyelem a csempék között, [B, N, dim] -> [B, N, dim]."""

    def __init__(self, dim, fejek):
        super().__init__()
        self.fejek, self.d = fejek, dim // fejek
        self.kerdes = nn.Linear(dim, dim)
        self.kulcs = nn.Linear(dim, dim)
        self.ertek = nn.Linear(dim, dim)
        self.kimenet = nn.Linear(dim, dim)

    def fejekre(self, t):
        b, n, _ = t.shape
        return t.view(b, n, self.fejek, self.d).permute(0, 2, 1, 3).contiguous()

    def forward(self, x, valos):
        b, n, dim = x.shape
        q, k, v = self.fejekre(self.kerdes(x)), self.fejekre(self.kulcs(x)), self.fejekre(self.ertek(x))
        pont = torch.matmul(q, k.transpose(-1, -2)) / self.d ** 0.5
        maszk = valos[:, None, :, None]
        pont = pont.masked_fill(~maszk, torch.finfo(pont.dtype).min)
        suly = torch.softmax(pont, dim=-1)
        ki = torch.matmul(suly, v)
        ki = ki.view(b, n, dim)
        return self.kimenet(ki)


class Metszet(nn.Module):
    """METAVIR stádium (F0..F4)."""

    def __init__(self, dim=20, fejek=4, osztaly=5):
        super().__init__()
        self.csempe, self.hely = Csempe(dim), Helyzet(dim)
        self.figyelem = CsempeFigyelem(dim, fejek)
        self.norma = nn.LayerNorm(dim)
        self.fej = nn.Linear(dim, osztaly)

    def forward(self, kep, xy, valos):
        h = self.csempe(kep) + self.hely(xy)
        h = self.norma(h + self.figyelem(h, valos))
        w = valos.to(h.dtype).unsqueeze(-1)
        return self.fej((h * w).sum(1) / w.sum(1).clamp_min(1.0))


if __name__ == "__main__":
    torch.manual_seed(11)
    m = Metszet().eval()
    valos = torch.tensor([[True] * 6, [True] * 4 + [False] * 2])
    print(m(torch.rand(2, 6, 3, 16, 16), torch.rand(2, 6, 2) * 5, valos).softmax(-1))

# Orgelpunt -- registratie-advies voor kerkorgels (welke registers trek je wanneer?)
# Aandacht met ALiBi over maten; werkt ook als het aantal koppen geen macht van 2 is.
import math

import torch
from torch import nn


def hellingen(n):
    """ALiBi-hellingen volgens Press et al.; voor n geen macht van twee worden de
    ontbrekende genomen uit de rij van de eerstvolgende macht (om en om)."""
    def macht(m):
        start = 2.0 ** (-8.0 / m)
        return [start ** (i + 1) for i in range(m)]

    if math.log2(n).is_integer():
        return macht(n)
    dicht = 2 ** math.floor(math.log2(n))
    return macht(dicht) + macht(2 * dicht)[0::2][: n - dicht]


class MaatAandacht(nn.Module):
    """Causale zelf-aandacht over maten.

    x         [B, M, D]
    verleden  optioneel (k, v) van eerdere maten, elk [B, H, P, d]
    uit       (y [B, M, D], (k, v))
    """

    def __init__(self, D=36, H=6):
        super().__init__()
        self.H, self.d = H, D // H
        self.wq = nn.Linear(D, D)
        self.wk = nn.Linear(D, D)
        self.wv = nn.Linear(D, D)
        self.wo = nn.Linear(D, D)
        self.register_buffer("helling", torch.tensor(hellingen(H)).view(H, 1, 1))

    def forward(self, x, verleden=None):
        B, M, D = x.shape

        def koppen(t):
            return t.view(B, M, self.H, self.d).permute(0, 2, 1, 3)

        q, k, v = koppen(self.wq(x)), koppen(self.wk(x)), koppen(self.wv(x))
        if verleden is not None:
            k = torch.cat([verleden[0], k], dim=-2)
            v = torch.cat([verleden[1], v], dim=-2)
        S = k.size(-2)
        qpos = torch.arange(S - M, S, device=x.device)[:, None]
        kpos = torch.arange(S, device=x.device)[None, :]
        afstand = kpos - qpos                              # <= 0 voor het verleden
        s = q @ k.transpose(-1, -2) / math.sqrt(self.d)
        s = s + self.helling * afstand.to(s.dtype)
        s = s.masked_fill(afstand > 0, float("-inf"))
        return self.wo((s.softmax(-1) @ v).transpose(1, 2).reshape(B, M, D)), (k, v)


class RegistratieModel(nn.Module):
    REGISTERS = ("Prestant 8", "Holpijp 8", "Octaaf 4", "Mixtuur", "Bazuin 16", "Vox Humana")

    def __init__(self, noten=61, D=36, lagen=2):
        super().__init__()
        self.maat = nn.Linear(noten, D)
        self.lagen = nn.ModuleList(MaatAandacht(D) for _ in range(lagen))
        self.uit = nn.Linear(D, len(self.REGISTERS))

    def forward(self, rol):
        h = self.maat(rol)
        for laag in self.lagen:
            h = h + laag(h)[0]
        return torch.sigmoid(self.uit(h))

"""Differenzielle Aufmerksamkeit: zwei Karten, die zweite wird abgezogen."""
import math
import torch
from torch import nn


class Zweiblick(nn.Module):
    """Kausal. Ausgabe je Kopf: RMSNorm((A1 - lam * A2) V) * (1 - lam_start)."""

    def __init__(self, breite, koepfe, tiefe=1):
        super().__init__()
        self.h = koepfe
        self.d = breite // koepfe // 2
        self.lam_start = 0.8 - 0.6 * math.exp(-0.3 * (tiefe - 1))
        self.frage = nn.Linear(breite, breite, bias=False)
        self.schluessel = nn.Linear(breite, breite, bias=False)
        self.wert = nn.Linear(breite, breite, bias=False)
        self.ende = nn.Linear(breite, breite, bias=False)
        self.l = nn.Parameter(torch.randn(4, self.d) * 0.1)
        self.g = nn.Parameter(torch.ones(2 * self.d))

    def forward(self, x):
        b, n, c = x.shape
        q = self.frage(x).view(b, n, self.h, 2, self.d)
        k = self.schluessel(x).view(b, n, self.h, 2, self.d)
        v = self.wert(x).view(b, n, self.h, 2 * self.d)
        s = torch.einsum("bihmd,bjhmd->bmhij", q, k) / math.sqrt(self.d)
        zukunft = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)
        a = s.masked_fill(zukunft, float("-inf")).softmax(dim=-1)
        lam = (self.l[0] @ self.l[1]).exp() - (self.l[2] @ self.l[3]).exp() + self.lam_start
        karte = a[:, 0] - lam * a[:, 1]
        o = torch.einsum("bhij,bjhd->bihd", karte, v)
        o = o * torch.rsqrt(o.pow(2).mean(-1, keepdim=True) + 1e-5) * self.g
        return self.ende((o * (1 - self.lam_start)).reshape(b, n, c))

"""Isotopenkurven aus Tropfsteinen: Klimaphasen erkennen.

Baustein: Differenzielle Aufmerksamkeit (Ye u. a. 2024).  Zwei Softmax-Karten je Kopf
werden voneinander abgezogen, damit sich gemeinsames Rauschen weghebt; deshalb dürfen
die Gewichte hier negativ sein und müssen sich nicht zu eins addieren.

Die Kurve wird als Ganzes gelesen (keine kausale Maske).  ``luecke`` ist True, wo die
Probe fehlt; solche Stellen dürfen nicht beachtet werden.
"""
import math
from typing import Optional

import torch
from torch import nn

MIN_SCHICHTEN = 8


def lambda_start(tiefe: int) -> float:
    return 0.8 - 0.6 * math.exp(-0.3 * tiefe)


class KopfNorm(nn.Module):
    """RMS-Norm je Kopf, ohne Verstärkung."""

    def __init__(self, eps: float = 1e-5):
        super().__init__()
        self.eps = eps

    def forward(self, x):
        return x * (x.pow(2).mean(-1, keepdim=True) + self.eps).rsqrt()


class DifferenzAufmerksamkeit(nn.Module):
    def __init__(self, breite: int = 32, koepfe: int = 2, tiefe: int = 0):
        super().__init__()
        self.koepfe = koepfe
        self.d = breite // koepfe // 2            # halbe Kopfbreite: je Karte
        self.frage = nn.Linear(breite, breite, bias=False)
        self.schluessel = nn.Linear(breite, breite, bias=False)
        self.wert = nn.Linear(breite, breite, bias=False)
        self.aus = nn.Linear(breite, breite, bias=False)
        self.anfang = lambda_start(tiefe)
        self.lq1, self.lk1, self.lq2, self.lk2 = (
            nn.Parameter(torch.randn(self.d) * 0.1) for _ in range(4)
        )
        self.norm = KopfNorm()

    def lam(self):
        a = torch.exp(torch.dot(self.lq1, self.lk1))
        b = torch.exp(torch.dot(self.lq2, self.lk2))
        return a - b + self.anfang

    def forward(self, x: torch.Tensor, luecke: Optional[torch.Tensor] = None):
        B, L, C = x.shape
        q = self.frage(x).view(B, L, self.koepfe, 2, self.d).permute(0, 2, 3, 1, 4)
        k = self.schluessel(x).view(B, L, self.koepfe, 2, self.d).permute(0, 2, 3, 1, 4)
        v = self.wert(x).view(B, L, self.koepfe, 2 * self.d).transpose(1, 2)

        punkte = torch.matmul(q, k.transpose(-1, -2)) * self.d ** -0.5   # [B, H, 2, L, L]
        if luecke is not None:
            punkte = punkte.masked_fill(luecke[:, None, None, None, :], -1e30)
        karten = torch.softmax(punkte, dim=-1)
        karte = karten[:, :, 0] - self.lam() * karten[:, :, 1]
        y = self.norm(karte @ v) * (1.0 - self.anfang)
        return self.aus(y.transpose(1, 2).reshape(B, L, C))


class Schichtmodell(nn.Module):
    def __init__(self, kanaele: int = 3, breite: int = 32, tiefe: int = 2, phasen: int = 4):
        super().__init__()
        self.ein = nn.Conv1d(kanaele, breite, 3, padding=1)
        self.aufm = nn.ModuleList([DifferenzAufmerksamkeit(breite, 2, t) for t in range(tiefe)])
        self.norm = nn.ModuleList([nn.LayerNorm(breite) for _ in range(tiefe)])
        self.kopf = nn.Linear(breite, phasen)

    def forward(self, kurve, luecke=None):
        if kurve.shape[1] < MIN_SCHICHTEN:
            raise ValueError("zu wenige Schichten")
        h = self.ein(kurve.transpose(1, 2)).transpose(1, 2)
        for a, n in zip(self.aufm, self.norm):
            h = h + a(n(h), luecke)
        return self.kopf(h)


if __name__ == "__main__":
    kurve = torch.randn(2, 20, 3)
    fehlt = torch.zeros(2, 20, dtype=torch.bool)
    fehlt[0, 15:] = True
    print(Schichtmodell()(kurve, fehlt).shape)

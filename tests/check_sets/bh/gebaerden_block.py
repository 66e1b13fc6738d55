"""Gebärdensprache -> Glossen.  Encoderblock über Skelett-Keypoints.

Zwei Besonderheiten gegenüber dem Standard-Transformer:
  * Jeder Kopf besitzt eine gelernte "Senke" (sink): ein zusätzlicher Logit
    ohne Wert. Die Zeilensumme der Gewichte ist deshalb kleiner als 1 -- ein
    Frame darf also auch "nichts" beachten (Hände in Ruhelage).
  * Ein Sigmoid-Tor, aus der Eingabe berechnet, schwächt den Ausgang je Kopf.
"""
from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F

KONFIG = dict(breite=96, koepfe=6, ff=192, tropf=0.1)

# MediaPipe: 21 Punkte je Hand + 12 Oberkörper, jeweils (x, y, sicherheit)
ANZAHL_PUNKTE = 21 * 2 + 12


class SenkenAufmerksamkeit(nn.Module):
    def __init__(self, breite: int, koepfe: int, tropf: float = 0.0):
        super().__init__()
        if breite % koepfe:
            raise ValueError("breite muss durch koepfe teilbar sein")
        self.h = koepfe
        self.d = breite // koepfe
        self.qkv = nn.Linear(breite, 3 * breite, bias=False)
        self.tor = nn.Linear(breite, koepfe)
        self.senke = nn.Parameter(torch.zeros(koepfe))
        self.aus = nn.Linear(breite, breite)
        self.tropf = nn.Dropout(tropf)

    def forward(self, x: torch.Tensor, gueltig: torch.Tensor | None = None):
        """x: (B, T, C);  gueltig: (B, T) bool, True = echter Frame."""
        B, T, C = x.shape
        # gepacktes Layout: erst alle q, dann alle k, dann alle v
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (t.reshape(B, T, self.h, self.d).transpose(1, 2) for t in (q, k, v))

        logits = (q @ k.transpose(-2, -1)) * self.d ** -0.5
        if gueltig is not None:
            logits = logits.masked_fill(~gueltig[:, None, None, :], float("-inf"))
        senke = self.senke.view(1, self.h, 1, 1).expand(B, -1, T, 1)
        # Die Senke ist immer endlich, daher auch bei leeren Clips kein NaN.
        p = torch.cat([logits, senke], dim=-1).float().softmax(-1).to(x.dtype)
        p = self.tropf(p[..., :-1])

        y = p @ v
        tor = torch.sigmoid(self.tor(x)).transpose(1, 2).unsqueeze(-1)
        y = (y * tor).transpose(1, 2).reshape(B, T, C)
        return self.aus(y)


class GebaerdenBlock(nn.Module):
    def __init__(self, breite, koepfe, ff, tropf):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(breite), nn.LayerNorm(breite)
        self.att = SenkenAufmerksamkeit(breite, koepfe, tropf)
        self.ff1, self.ff2 = nn.Linear(breite, ff), nn.Linear(ff, breite)

    def forward(self, x, gueltig=None):
        x = x + self.att(self.n1(x), gueltig)
        return x + self.ff2(F.silu(self.ff1(self.n2(x))))


class GlossenKopf(nn.Module):
    def __init__(self, glossen: int, tiefe: int = 2):
        super().__init__()
        self.ein = nn.Linear(ANZAHL_PUNKTE * 3, KONFIG["breite"])
        self.bloecke = nn.ModuleList(GebaerdenBlock(**KONFIG) for _ in range(tiefe))
        self.ctc = nn.Linear(KONFIG["breite"], glossen + 1)

    def forward(self, punkte, gueltig=None):
        x = self.ein(punkte.flatten(2))
        for b in self.bloecke:
            x = b(x, gueltig)
        return self.ctc(x).log_softmax(-1)


if __name__ == "__main__":
    m = GlossenKopf(300)
    print(m(torch.randn(2, 40, ANZAHL_PUNKTE, 3)).shape)

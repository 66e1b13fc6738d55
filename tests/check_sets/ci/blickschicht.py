"""Eine Schicht mit mehreren Blicken (Koepfen) fuer Saetze verschiedener Laenge.

Eingang ``satz``: (Stapel, Laenge, Breite).  ``gueltig``: (Stapel, Laenge), wahr wo
ein Wort steht, falsch wo aufgefuellt wurde; jeder Satz hat mindestens ein Wort.
Aufgefuellte Stellen duerfen von keinem Wort angesehen werden.
"""
import math

import torch
from torch import nn


class Blickschicht(nn.Module):
    def __init__(self, breite=24, koepfe=3, vergessen=0.1):
        super().__init__()
        if breite % koepfe:
            raise ValueError("breite muss durch koepfe teilbar sein")
        self.koepfe = koepfe
        self.tiefe = breite // koepfe
        self.frage = nn.Linear(breite, breite)
        self.stichwort = nn.Linear(breite, breite)
        self.inhalt = nn.Linear(breite, breite)
        self.ausgang = nn.Linear(breite, breite)
        self.vergessen = nn.Dropout(vergessen)
        self.norm = nn.LayerNorm(breite)

    def _teilen(self, t):
        b, l, _ = t.shape
        return t.view(b, l, self.koepfe, self.tiefe).permute(0, 2, 1, 3)

    def forward(self, satz, gueltig):
        f = self._teilen(self.frage(satz))
        s = self._teilen(self.stichwort(satz))
        i = self._teilen(self.inhalt(satz))

        naehe = torch.matmul(f, s.transpose(-1, -2)) / math.sqrt(self.tiefe)
        verboten = gueltig.logical_not()[:, None, None, :]
        naehe = naehe.masked_fill(verboten, torch.finfo(naehe.dtype).min)
        anteil = self.vergessen(torch.softmax(naehe, dim=-1))

        blick = torch.matmul(anteil, i)
        b, _, l, _ = blick.shape
        blick = blick.permute(0, 2, 1, 3).contiguous().view(b, l, self.koepfe * self.tiefe)
        return self.norm(satz + self.vergessen(self.ausgang(blick)))

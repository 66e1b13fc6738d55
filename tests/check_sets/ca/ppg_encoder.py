"""
Encoder-Schicht für Pulswellen vom Handgelenk (PPG), 25 Hz, in Stücke zerlegt.

Aufnahmen sind verschieden lang.  ``gueltig`` ist True für echte Stücke und False für
aufgefüllte; aufgefüllte Stücke dürfen von niemandem gelesen werden.  Die Aufmerksamkeit
ist die übliche skalierte (Vaswani et al. 2017) mit mehreren Köpfen.
"""
import torch
from torch import nn


class Aufmerksamkeit(nn.Module):
    def __init__(self, breite, koepfe):
        super().__init__()
        self.koepfe = koepfe
        self.q = nn.Linear(breite, breite)
        self.k = nn.Linear(breite, breite)
        self.v = nn.Linear(breite, breite)
        self.aus = nn.Linear(breite, breite)

    def teilen(self, t):
        B, L, C = t.shape
        return t.reshape(B, self.koepfe, L, C // self.koepfe)

    def forward(self, x, gueltig=None):
        B, L, C = x.shape
        q = self.teilen(self.q(x))
        k = self.teilen(self.k(x))
        v = self.teilen(self.v(x))

        punkte = q @ k.transpose(-1, -2)
        punkte = punkte / L ** 0.5
        if gueltig is not None:
            sperre = ~gueltig[:, None, :, None]
            punkte = punkte.masked_fill(sperre, torch.finfo(punkte.dtype).min)
        gewichte = punkte.softmax(dim=-1)
        y = gewichte @ v                      # B, Köpfe, L, C/Köpfe
        y = y.transpose(1, 2).reshape(B, L, C)
        return self.aus(y)


class PpgSchicht(nn.Module):
    def __init__(self, stueck=25, breite=32, koepfe=4, dropout=0.1):
        super().__init__()
        self.einbetten = nn.Linear(stueck, breite)
        self.norm1 = nn.LayerNorm(breite)
        self.aufmerksamkeit = Aufmerksamkeit(breite, koepfe)
        self.norm2 = nn.LayerNorm(breite)
        self.netz = nn.Sequential(
            nn.Linear(breite, 2 * breite), nn.SiLU(), nn.Dropout(dropout), nn.Linear(2 * breite, breite)
        )

    def forward(self, stuecke, gueltig=None):
        """stuecke: B x L x 25 Messwerte, gueltig: B x L"""
        x = self.einbetten(stuecke)
        x = x + self.aufmerksamkeit(self.norm1(x), gueltig)
        x = x + self.netz(self.norm2(x))
        return x

"""Conformer-Block (Macaron-Stil) für kurze Sprachkommandos.

Eingabe  frames  (Batch, Zeit, Kanal); alle Aufnahmen haben dieselbe Länge, kein Padding.
Ausgabe  dieselbe Form.

    x + 1/2 FF  ->  x + Selbstaufmerksamkeit über die ZEIT jeder Aufnahme
                ->  x + Faltung über die Zeit  ->  x + 1/2 FF  ->  LayerNorm

Aufnahmen eines Batches beeinflussen einander nicht.
"""
import torch
from torch import nn


def feed_forward(d, mult=4):
    return nn.Sequential(nn.LayerNorm(d), nn.Linear(d, d * mult), nn.SiLU(), nn.Linear(d * mult, d))


class Faltung(nn.Module):
    def __init__(self, d, k=7):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.rein = nn.Conv1d(d, 2 * d, 1)
        self.tief = nn.Conv1d(d, d, k, padding=k // 2, groups=d)
        self.raus = nn.Conv1d(d, d, 1)

    def forward(self, x):
        y = self.norm(x).transpose(1, 2)            # (Batch, Kanal, Zeit)
        y = nn.functional.glu(self.rein(y), dim=1)
        return self.raus(nn.functional.silu(self.tief(y))).transpose(1, 2)


class ConformerBlock(nn.Module):
    def __init__(self, d=32, koepfe=4):
        super().__init__()
        self.ff1, self.ff2 = feed_forward(d), feed_forward(d)
        self.att_norm = nn.LayerNorm(d)
        self.att = nn.MultiheadAttention(d, koepfe)
        self.faltung = Faltung(d)
        self.ende = nn.LayerNorm(d)

    def forward(self, frames):
        x = frames + 0.5 * self.ff1(frames)
        y = self.att_norm(x)
        x = x + self.att(y, y, y, need_weights=False)[0]
        x = x + self.faltung(x)
        x = x + 0.5 * self.ff2(x)
        return self.ende(x)

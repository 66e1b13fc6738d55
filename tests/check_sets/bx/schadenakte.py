"""Einordnung von Schadenakten (Kfz-Versicherung).

Eine Akte ist eine Folge von Dokumentvektoren. Die Dokumente sehen einander
ueber Multi-Head-Attention; aufgefuellte Plaetze (vorhanden == 0) duerfen von
keinem Dokument gesehen werden. Danach Mittelwert ueber die echten Dokumente.
"""
import math

import torch
from torch import nn


class AktenAttention(nn.Module):
    def __init__(self, breite=16, koepfe=4):
        super().__init__()
        assert breite % koepfe == 0
        self.koepfe = koepfe
        self.dk = breite // koepfe
        self.frage = nn.Linear(breite, breite)
        self.schluessel = nn.Linear(breite, breite)
        self.wert = nn.Linear(breite, breite)
        self.aus = nn.Linear(breite, breite)

    def teile(self, x):
        b, n, _ = x.shape
        return x.view(b, n, self.koepfe, self.dk).transpose(1, 2)   # b, koepfe, n, dk

    def forward(self, x, vorhanden):
        q = self.teile(self.frage(x))
        k = self.teile(self.schluessel(x))
        v = self.teile(self.wert(x))
        punkte = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(self.dk)
        maske = vorhanden.unsqueeze(1).unsqueeze(3)
        punkte = punkte.masked_fill(maske == 0, -1e9)
        gewichte = torch.softmax(punkte, dim=-1)
        z = torch.matmul(gewichte, v).transpose(1, 2).contiguous()
        return self.aus(z.view(x.size(0), x.size(1), -1))


class SchadenKlassifikator(nn.Module):
    def __init__(self, breite=16, koepfe=4, klassen=5):
        super().__init__()
        self.att = AktenAttention(breite, koepfe)
        self.norm = nn.LayerNorm(breite)
        self.kopf = nn.Linear(breite, klassen)

    def forward(self, akte, vorhanden):
        # akte: [b, n, breite], vorhanden: [b, n] mit 1 = Dokument, 0 = leer
        h = self.norm(akte + self.att(akte, vorhanden))
        gew = vorhanden.to(h.dtype).unsqueeze(-1)
        mittel = (h * gew).sum(1) / gew.sum(1).clamp(min=1)
        return self.kopf(mittel)

"""Beladung von Lkw: Mengen-Encoder fuer Paletten (Set Transformer, MAB/PMA).

paletten (B, N, F)  Merkmale (Masse, Gewicht, Ziel ...), Reihenfolge ohne Bedeutung
da       (B, N)     1.0 = Palette existiert, 0.0 = Auffuellung; mindestens eine je Lkw

PMA: S lernbare Abfragen lesen die Menge; fuer jede Abfrage und jeden Kopf ist
    softmax( q k^T / sqrt(d_kopf) )
eine Verteilung, deren Summe ueber die existierenden Paletten gleich 1 ist
(Auffuellung hat Gewicht 0).  Ergebnis (B, S, D).
"""
import torch
import torch.nn as nn


class PalettenPool(nn.Module):
    def __init__(self, merkmale, dim=24, koepfe=3, abfragen=2):
        super().__init__()
        self.koepfe = koepfe
        self.ein = nn.Sequential(nn.Linear(merkmale, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.saat = nn.Parameter(torch.empty(1, abfragen, dim))
        nn.init.xavier_uniform_(self.saat)
        self.fq, self.fk, self.fv = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.fo = nn.Linear(dim, dim)

    def koepfe_trennen(self, t):
        return t.unflatten(-1, (self.koepfe, -1)).transpose(1, 2)

    def forward(self, paletten, da):
        x = self.ein(paletten)
        saat = self.saat.expand(x.size(0), -1, -1)
        q, k, v = map(self.koepfe_trennen, (self.fq(saat), self.fk(x), self.fv(x)))
        punkte = q @ k.mT / q.size(-1) ** 0.5
        gewicht = torch.softmax(punkte, dim=-1)
        gewicht = gewicht * da[:, None, None, :]
        h = self.fq(saat) + (gewicht @ v).transpose(1, 2).flatten(2)
        return h + torch.relu(self.fo(h))

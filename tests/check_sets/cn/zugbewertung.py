# -*- coding: utf-8 -*-
"""Zugbewertung: Aufmerksamkeit über die 64 Felder eines Schachbretts.

Jedes Feld ist ein Token (a1 = 0, b1 = 1, ..., h8 = 63).  Statt absoluter
Positionen bekommt jeder Kopf eine gelernte Verschiebung, die nur davon abhängt,
wie viele Reihen und Linien zwischen Ziel- und Quellfeld liegen (15 x 15 Werte).

Wie bei T5 werden die Punktzahlen NICHT durch sqrt(d) geteilt; der Faktor steckt
in der Initialisierung der Abfragematrix.
"""
import torch
import torch.nn as nn


def _abstand_index():
    feld = torch.arange(64)
    reihe, linie = feld // 8, feld % 8
    dr = reihe[:, None] - reihe[None, :] + 7      # 0..14
    dl = linie[:, None] - linie[None, :] + 7
    return dr * 15 + dl                           # [64, 64]


class Brettaufmerksamkeit(nn.Module):
    def __init__(self, breite: int = 48, koepfe: int = 6):
        super().__init__()
        assert breite % koepfe == 0
        self.koepfe = koepfe
        self.d = breite // koepfe
        self.frage = nn.Linear(breite, breite, bias=False)
        self.schluessel = nn.Linear(breite, breite, bias=False)
        self.wert = nn.Linear(breite, breite, bias=False)
        self.aus = nn.Linear(breite, breite, bias=False)
        self.abstand = nn.Embedding(15 * 15, koepfe)
        self.register_buffer("index", _abstand_index(), persistent=False)
        nn.init.normal_(self.frage.weight, std=(breite * self.d) ** -0.5)
        nn.init.normal_(self.schluessel.weight, std=breite ** -0.5)
        nn.init.normal_(self.abstand.weight, std=0.1)

    def _teile(self, x):
        return x.unflatten(-1, (self.koepfe, self.d)).transpose(1, 2)

    def forward(self, felder: torch.Tensor) -> torch.Tensor:
        """felder: [stapel, 64, breite]  ->  [stapel, 64, breite]"""
        q = self._teile(self.frage(felder))
        k = self._teile(self.schluessel(felder))
        v = self._teile(self.wert(felder))
        punkte = q @ k.transpose(-2, -1)
        punkte = punkte + self.abstand(self.index).permute(2, 0, 1)   # [K, 64, 64]
        gewicht = punkte.softmax(dim=-1)
        gemischt = (gewicht @ v).transpose(1, 2).flatten(2)
        return self.aus(gemischt)


class Bewerter(nn.Module):
    """Figurencodes [stapel, 64] (0..12) -> Stellungswert in (-1, 1)."""

    def __init__(self, breite: int = 48, tiefe: int = 2):
        super().__init__()
        self.figur = nn.Embedding(13, breite)
        self.lagen = nn.ModuleList(Brettaufmerksamkeit(breite) for _ in range(tiefe))
        self.normen = nn.ModuleList(nn.LayerNorm(breite) for _ in range(tiefe))
        self.kopf = nn.Linear(breite, 1)

    def forward(self, stellung):
        x = self.figur(stellung)
        for norm, lage in zip(self.normen, self.lagen):
            x = x + lage(norm(x))
        return torch.tanh(self.kopf(x.mean(dim=1))).squeeze(-1)

"""Rezeptvorschläge: Kandidat gegen Verlauf gewichten (Zielaufmerksamkeit).

verlauf    (B, T) long  zuletzt gekochte Rezepte, 0 = leer (rechts aufgefüllt, mind. 1 Rezept)
kandidat   (B,)   long  das Rezept, das bewertet werden soll
zutaten    (B, Z) float Vorrat im Kühlschrank als 0/1-Vektor
Rückgabe   (B,)   Klickwahrscheinlichkeit

Der Kandidat fragt, die Rezepte des Verlaufs antworten: softmax über die belegten Plätze
von <f(kandidat), g(rezept)> / sqrt(breite). Leere Plätze bekommen Gewicht 0.
"""
import torch
from torch import nn


class RezeptReco(nn.Module):
    def __init__(self, rezepte, zutaten, breite=32, p=0.2):
        super().__init__()
        self.breite = breite
        self.emb = nn.Embedding(rezepte + 1, breite, padding_idx=0)
        self.f = nn.Linear(breite, breite)
        self.g = nn.Linear(breite, breite)
        self.kuehlschrank = nn.Sequential(nn.Linear(zutaten, breite), nn.ReLU())
        self.turm = nn.Sequential(
            nn.Linear(3 * breite, 64), nn.PReLU(), nn.Dropout(p), nn.Linear(64, 1)
        )

    def gewichte(self, k, r, belegt):
        punkte = torch.einsum("bd,btd->bt", self.f(k), self.g(r)) / self.breite ** 0.5
        punkte = punkte.masked_fill(~belegt, 1e-9)
        return punkte.softmax(dim=1)

    def forward(self, verlauf, kandidat, zutaten):
        r, k = self.emb(verlauf), self.emb(kandidat)
        w = self.gewichte(k, r, verlauf > 0)
        profil = (w.unsqueeze(-1) * r).sum(dim=1)
        x = torch.cat([profil, k, self.kuehlschrank(zutaten)], dim=-1)
        return self.turm(x).squeeze(-1).sigmoid()

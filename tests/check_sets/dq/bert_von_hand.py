"""Blog "BERT von Hand", Teil 2: die Aufmerksamkeit, ohne fertige Bausteine.

Wir schreiben jede Zeile selbst: Projektion, Köpfe, Maske, Softmax, Zusammenfügen.
"""
import math

import torch
from torch import nn


class Aufmerksamkeit(nn.Module):
    """Beidseitige Mehrkopf-Selbstaufmerksamkeit.

    x    (B, L, D)
    echt (B, L) bool: True = echtes Wort, False = Füllung. Kein echtes Wort darf eine
         Füllstelle anschauen (Gewicht 0). Mindestens ein True je Satz.
    Ergebnis (B, L, D): Kopf h rechnet softmax(q k^T / sqrt(d)) v mit d = D / koepfe auf den
    Kanälen h*d bis (h+1)*d - 1; die Ausgaben der Köpfe je Wort werden in dieser
    Reihenfolge aneinandergehängt und projiziert.
    """

    def __init__(self, D, koepfe):
        super().__init__()
        self.koepfe, self.d = koepfe, D // koepfe
        self.q = nn.Linear(D, D)
        self.k = nn.Linear(D, D)
        self.v = nn.Linear(D, D)
        self.aus = nn.Linear(D, D)

    def teile(self, x):
        B, L, _ = x.shape
        return x.view(B, L, self.koepfe, self.d).transpose(1, 2)

    def forward(self, x, echt):
        B, L, D = x.shape
        q, k, v = self.teile(self.q(x)), self.teile(self.k(x)), self.teile(self.v(x))

        punkte = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(self.d)
        maske = echt.unsqueeze(1).unsqueeze(3)
        punkte = punkte.masked_fill(~maske, -1e9)
        gewichte = torch.softmax(punkte, dim=-1)

        kontext = torch.matmul(gewichte, v)
        kontext = kontext.reshape(B, L, D)
        return self.aus(kontext)


class Schicht(nn.Module):
    """Kodiererschicht (Post-LN): x (B, L, D), echt (B, L) -> (B, L, D)."""

    def __init__(self, D=32, koepfe=4):
        super().__init__()
        self.auf = Aufmerksamkeit(D, koepfe)
        self.ln1, self.ln2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.netz = nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(), nn.Linear(4 * D, D))

    def forward(self, x, echt):
        x = self.ln1(x + self.auf(x, echt))
        return self.ln2(x + self.netz(x))

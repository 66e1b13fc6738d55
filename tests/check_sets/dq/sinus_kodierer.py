"""Übung 8: Transformer-Kodierer mit Sinus-Positionen (Lösung).

P[t, 2i] = sin(t / 10000^(2i/D)),  P[t, 2i+1] = cos(t / 10000^(2i/D))
Die Worteinbettung wird vorher mit sqrt(D) multipliziert (Vaswani 2017, 3.4).
"""
import math

import torch
from torch import nn


def sinustafel(laenge, D):
    """(laenge, D), D gerade."""
    t = torch.arange(laenge).unsqueeze(1)
    frequenz = torch.exp(torch.arange(0, D, 2) * (-math.log(1e4) / D))
    winkel = t * frequenz
    return torch.stack((winkel.sin(), winkel.cos()), dim=2).reshape(laenge, D)


class Kodierer(nn.Module):
    """Eine Kodiererschicht ueber Wortnummern.

    ids (B, L), 0 = Fuellzeichen (wird nicht angeschaut), jede Zeile mit mindestens
    einem Wort -> (B, L, D). Die Ausgaben an Fuellstellen sind auf 0 gesetzt.
    Je Kopf softmax(q k^T / sqrt(D / koepfe)) v; Post-LN.
    """

    def __init__(self, wortschatz, D=32, koepfe=4, max_laenge=50, p=0.1):
        super().__init__()
        self.D, self.koepfe = D, koepfe
        self.wort = nn.Embedding(wortschatz, D)
        self.register_buffer("tafel", sinustafel(max_laenge, D), persistent=False)
        self.q, self.k, self.v, self.o = (nn.Linear(D, D) for _ in range(4))
        self.mlp = nn.Sequential(nn.Linear(D, 2 * D), nn.ReLU(), nn.Linear(2 * D, D))
        self.ln1, self.ln2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.drop = nn.Dropout(p)

    def schau(self, x, echt):
        teile = [lin(x).unflatten(2, (self.koepfe, -1)) for lin in (self.q, self.k, self.v)]
        q, k, v = teile
        e = torch.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(q.size(3))
        e = e.masked_fill(~echt[:, None, None], float("-inf"))
        p = self.drop(e.softmax(dim=3))
        return self.o(torch.einsum("bhij,bjhd->bihd", p, v).flatten(2))

    def forward(self, ids):
        echt = ids != 0
        x = self.wort(ids) * math.sqrt(self.D) + self.tafel[: ids.size(1)]
        x = self.ln1(x + self.drop(self.schau(self.drop(x), echt)))
        x = self.ln2(x + self.drop(self.mlp(x)))
        return x * echt.unsqueeze(2)

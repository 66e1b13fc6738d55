"""Sprachmodell fuer Vertragsklauseln. Positionen nur ueber ALiBi, kein Positionsembedding."""
import math

import torch
from torch import nn


def steigungen(koepfe):
    """ALiBi-Steigungen wie im Original: 2^(-8/n), 2^(-16/n), ...

    Ist n keine Zweierpotenz, werden die fehlenden aus der naechstgroesseren
    Zweierpotenz genommen (jede zweite).
    """
    def potenz(n):
        start = 2.0 ** (-8.0 / n)
        return [start ** (i + 1) for i in range(n)]

    n = 2 ** math.floor(math.log2(koepfe))
    werte = potenz(n)
    if n < koepfe:
        werte += potenz(2 * n)[0::2][: koepfe - n]
    return torch.tensor(werte)


class Aufmerksamkeit(nn.Module):
    """Kausal; x (B, T, breite). Je weiter ein Schluessel zurueckliegt, desto staerker der Abzug."""

    def __init__(self, breite=24, koepfe=3):
        super().__init__()
        self.koepfe = koepfe
        self.fkw = nn.Linear(breite, 3 * breite)       # Frage, Schluessel, Wert
        self.aus = nn.Linear(breite, breite)
        self.register_buffer("m", steigungen(koepfe), persistent=False)

    def forward(self, x):
        B, T, C = x.shape
        f, s, w = self.fkw(x).split(C, dim=2)
        f, s, w = (a.view(B, T, self.koepfe, C // self.koepfe).transpose(1, 2) for a in (f, s, w))
        pos = torch.arange(T, device=x.device)
        abstand = pos[:, None] - pos[None, :]                     # >= 0 in der Vergangenheit
        neigung = -self.m.view(-1, 1, 1) * abstand
        neigung = neigung.masked_fill(abstand < 0, float("-inf"))
        punkte = f @ s.transpose(2, 3) / math.sqrt(C // self.koepfe) + neigung
        y = punkte.softmax(-1) @ w
        return self.aus(y.transpose(1, 2).contiguous().view(B, T, C))


class KlauselModell(nn.Module):
    def __init__(self, vokabular=50, breite=24, koepfe=3, tiefe=2):
        super().__init__()
        self.emb = nn.Embedding(vokabular, breite)
        self.norm = nn.ModuleList([nn.LayerNorm(breite) for _ in range(tiefe)])
        self.auf = nn.ModuleList([Aufmerksamkeit(breite, koepfe) for _ in range(tiefe)])
        self.kopf = nn.Linear(breite, vokabular)

    def forward(self, tokens):
        h = self.emb(tokens)
        for norm, auf in zip(self.norm, self.auf):
            h = h + auf(norm(h))
        return self.kopf(h)

"""Übung 6: Mehrköpfige Selbstaufmerksamkeit in PyTorch.

Eingabe x: (N, T, D). Die projizierten Vektoren werden in h Köpfe der Größe D // h
zerlegt: Kopf i bekommt von JEDEM Wort die Einträge i*(D//h) ... (i+1)*(D//h) - 1. Jeder Kopf
rechnet softmax(q k^T / sqrt(D // h)) v über alle T Wörter; die Ergebnisse der Köpfe werden
je Wort wieder aneinandergehängt und durch W_o geschickt.

gueltig: (N, T) bool, True = echtes Wort, False = Füllwort (darf als Schlüssel keine Rolle
spielen). Mindestens ein echtes Wort je Satz. None = alles echt.

Ausgabe: (N, T, D)
"""
import math
import torch
import torch.nn as nn


class Koepfe(nn.Module):
    def __init__(self, D, h):
        super().__init__()
        assert D % h == 0, "D muss durch h teilbar sein"
        self.h = h
        self.W_q = nn.Linear(D, D)
        self.W_k = nn.Linear(D, D)
        self.W_v = nn.Linear(D, D)
        self.W_o = nn.Linear(D, D)

    def zerlegen(self, t):
        N, T, D = t.shape
        return t.reshape(N, self.h, T, D // self.h)

    def forward(self, x, gueltig=None):
        N, T, D = x.shape
        q = self.zerlegen(self.W_q(x))
        k = self.zerlegen(self.W_k(x))
        v = self.zerlegen(self.W_v(x))
        s = torch.einsum("nhid,nhjd->nhij", q, k) / math.sqrt(q.shape[-1])
        if gueltig is not None:
            s = s.masked_fill(~gueltig[:, None, None, :], float("-inf"))
        y = torch.einsum("nhij,nhjd->nihd", s.softmax(-1), v)
        return self.W_o(y.reshape(N, T, D))

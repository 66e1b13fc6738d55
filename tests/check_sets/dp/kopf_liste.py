"""Encoder-Block, Kopf für Kopf ausgeschrieben (Skript zur Vorlesung, Kap. 7).

Jeder der ``k`` Köpfe hat seine eigenen Matrizen W_q, W_k, W_v der Größe
D x D/k, wie in Gleichung (7.4): die Köpfe sollen Verschiedenes lernen.
Ausgaben der Köpfe werden aneinandergehängt und mit W_o gemischt.

``EncoderBlock(D, k, F)``
    x     : (B, N, D)
    gilt  : (B, N) bool, True = echtes Wort, False = Auffüllung (wird von
            niemandem gelesen); mindestens ein echtes Wort je Satz
Rückgabe (B, N, D).  Pre-Norm, Skalierung 1/sqrt(D/k).
"""
import torch
from torch import nn


class EncoderBlock(nn.Module):
    def __init__(self, D, k, F):
        super().__init__()
        dk = D // k
        self.dk = dk
        self.Wq = nn.ModuleList([nn.Linear(D, dk, bias=False)] * k)
        self.Wk = nn.ModuleList([nn.Linear(D, dk, bias=False)] * k)
        self.Wv = nn.ModuleList([nn.Linear(D, dk, bias=False)] * k)
        self.Wo = nn.Linear(k * dk, D)
        self.norm1, self.norm2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.netz = nn.Sequential(nn.Linear(D, F), nn.ReLU(), nn.Linear(F, D))

    def kopf(self, i, x, gilt):
        q, s, w = self.Wq[i](x), self.Wk[i](x), self.Wv[i](x)
        e = q @ s.transpose(1, 2) / self.dk ** 0.5
        e = e.masked_fill(~gilt[:, None, :], float("-inf"))
        return torch.softmax(e, dim=2) @ w

    def forward(self, x, gilt):
        z = self.norm1(x)
        z = torch.cat([self.kopf(i, z, gilt) for i in range(len(self.Wq))], dim=-1)
        x = x + self.Wo(z)
        return x + self.netz(self.norm2(x))

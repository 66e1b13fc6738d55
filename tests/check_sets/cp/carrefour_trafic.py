"""Prévision de débit aux carrefours : attention temporelle causale.

Entrée  : (lot, pas_de_temps, canaux), un vecteur par intervalle de 5 minutes.
Sortie  : même forme.  L'instant t ne voit que le passé et lui-même.
Attention multi-têtes classique (« scaled dot-product »), têtes concaténées puis
projetées.
"""
import math

import torch
import torch.nn as nn


class AttentionTemporelle(nn.Module):
    def __init__(self, canaux=32, tetes=4, oubli=0.0):
        super().__init__()
        assert canaux % tetes == 0
        self.tetes = tetes
        self.dim_tete = canaux // tetes
        self.w_q = nn.Linear(canaux, canaux)
        self.w_k = nn.Linear(canaux, canaux)
        self.w_v = nn.Linear(canaux, canaux)
        self.w_s = nn.Linear(canaux, canaux)
        self.oubli = nn.Dropout(oubli)

    def decouper(self, x):
        lot, pas, _ = x.size()
        return x.view(lot, pas, self.tetes, self.dim_tete).permute(0, 2, 1, 3)

    def forward(self, x):
        lot, pas, canaux = x.size()
        q = self.decouper(self.w_q(x))
        k = self.decouper(self.w_k(x))
        v = self.decouper(self.w_v(x))

        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.dim_tete)
        futur = torch.triu(torch.ones(pas, pas, dtype=torch.bool, device=x.device), diagonal=1)
        scores = scores.masked_fill(futur, float("-inf"))
        poids = self.oubli(torch.softmax(scores, dim=-1))

        contexte = torch.matmul(poids, v)
        contexte = contexte.contiguous().view(lot, pas, canaux)
        return self.w_s(contexte)


class CoucheCarrefour(nn.Module):
    def __init__(self, canaux=32, tetes=4):
        super().__init__()
        self.attention = AttentionTemporelle(canaux, tetes)
        self.norme = nn.LayerNorm(canaux)
        self.dense = nn.Sequential(nn.Linear(canaux, 2 * canaux), nn.ReLU(), nn.Linear(2 * canaux, canaux))
        self.norme2 = nn.LayerNorm(canaux)

    def forward(self, x):
        x = self.norme(x + self.attention(x))
        return self.norme2(x + self.dense(x))

"""Bloc Transformer causal avec biais linéaires (ALiBi, Press et al. 2022).

Pour n têtes (n une puissance de deux), la tête h = 1..n reçoit la pente 2^(-8h/n) :
avec n = 8 les pentes sont 1/2, 1/4, ..., 1/256. Le logit de la requête i et de la clé j <= i
vaut  q_i . k_j / sqrt(d_tete) - pente_h * (i - j).  Les clés j > i sont interdites.

Entrée et sortie : (lot, temps, dim).
"""
import torch
import torch.nn as nn


def pentes(n):
    assert n & (n - 1) == 0, "puissance de deux seulement"
    return torch.tensor([2.0 ** (-8.0 * h / n) for h in range(n)])


class AttentionAlibi(nn.Module):
    def __init__(self, dim, tetes):
        super().__init__()
        self.tetes = tetes
        self.d_tete = dim // tetes
        self.q = nn.Linear(dim, dim, bias=False)
        self.k = nn.Linear(dim, dim, bias=False)
        self.v = nn.Linear(dim, dim, bias=False)
        self.sortie = nn.Linear(dim, dim, bias=False)
        self.register_buffer("m", pentes(tetes).view(1, tetes, 1, 1))

    def decoupe(self, x):
        b, t, _ = x.shape
        return x.view(b, t, self.tetes, self.d_tete).transpose(1, 2)

    def forward(self, x):
        b, t, dim = x.shape
        q, k, v = self.decoupe(self.q(x)), self.decoupe(self.k(x)), self.decoupe(self.v(x))
        pos = torch.arange(t, device=x.device)
        ecart = pos[:, None] - pos[None, :]                  # i - j
        logits = torch.matmul(q, k.transpose(2, 3))
        logits = logits - self.m * ecart
        logits = logits.masked_fill(ecart < 0, float("-inf"))
        poids = torch.softmax(logits, dim=-1)
        return self.sortie(torch.matmul(poids, v).transpose(1, 2).reshape(b, t, dim))


class Bloc(nn.Module):
    """Pré-normalisation, attention ALiBi, puis MLP quatre fois plus large."""

    def __init__(self, dim=32, tetes=4):
        super().__init__()
        self.n1 = nn.LayerNorm(dim)
        self.att = AttentionAlibi(dim, tetes)
        self.n2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = x + self.att(self.n1(x))
        return x + self.mlp(self.n2(x))

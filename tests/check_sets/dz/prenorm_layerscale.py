"""Bloc pré-norme avec LayerScale et profondeur stochastique.

Utilisé pour les trames log-mel ; tout est « temps d'abord » :
    x            (T, N, C)   T trames, N extraits, C canaux
    remplissage  (N, T) bool, True = trame de bourrage, à ne jamais regarder
                 (chaque extrait garde au moins une vraie trame)
Rend (T, N, C).  Chaque trame regarde toutes les vraies trames de SON extrait.
La profondeur stochastique ne joue qu'à l'entraînement et saute un extrait entier.
"""
import torch
from torch import nn


class BlocPreNorme(nn.Module):
    def __init__(self, c, tetes=4, facteur=4, gamma0=1e-1, p_saut=0.1):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(c), nn.LayerNorm(c)
        self.mha = nn.MultiheadAttention(c, tetes)
        self.mlp = nn.Sequential(nn.Linear(c, facteur * c), nn.GELU(), nn.Linear(facteur * c, c))
        self.g1 = nn.Parameter(gamma0 * torch.ones(c))
        self.g2 = nn.Parameter(gamma0 * torch.ones(c))
        self.p_saut = p_saut

    def _saut(self, r):
        if not self.training or self.p_saut == 0.0:
            return r
        garde = (torch.rand(1, r.size(1), 1, device=r.device) >= self.p_saut).to(r.dtype)
        return r * garde / (1.0 - self.p_saut)

    def forward(self, x, remplissage=None):
        y = self.n1(x)
        y, _ = self.mha(y, y, y, key_padding_mask=remplissage, need_weights=False)
        x = x + self._saut(self.g1 * y)
        x = x + self._saut(self.g2 * self.mlp(self.n2(x)))
        return x

"""Attention linéaire causale (Katharopoulos et al. 2020), phi(x) = elu(x) + 1.

Pas de softmax ici : le poids de la clé j pour la requête i est
phi(q_i).phi(k_j) / somme_{j'<=i} phi(q_i).phi(k_j').
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def phi(x):
    return F.elu(x) + 1.0


class AttentionLineaire(nn.Module):
    def __init__(self, dim, tetes, eps=1e-6):
        super().__init__()
        self.tetes, self.eps = tetes, eps
        self.entree = nn.Linear(dim, 3 * dim, bias=False)
        self.sortie = nn.Linear(dim, dim)

    def decoupe(self, x):
        b, n, _ = x.shape
        q, k, v = self.entree(x).view(b, n, 3, self.tetes, -1).unbind(2)
        return phi(q), phi(k), v

    def forward(self, x, present=None):
        """x (b, n, dim) ; present (b, n), vrai pour les jetons réels."""
        q, k, v = self.decoupe(x)
        if present is not None:
            k = k * present[:, :, None, None]
        S = torch.einsum("bnhd,bnhe->bnhde", k, v).cumsum(1)
        z = k.cumsum(1)
        num = torch.einsum("bnhd,bnhde->bnhe", q, S)
        den = torch.einsum("bnhd,bnhd->bnh", q, z) + self.eps
        return self.sortie((num / den[..., None]).flatten(2))

    def pas(self, x, etat=None):
        """Un jeton à la fois, x (b, dim). L'état est le couple (S, z)."""
        q, k, v = (t[:, 0] for t in self.decoupe(x[:, None]))
        kv = torch.einsum("bhd,bhe->bhde", k, v)
        S, z = (kv, k) if etat is None else (etat[0] + kv, etat[1] + k)
        den = torch.einsum("bhd,bhd->bh", q, z) + self.eps
        y = torch.einsum("bhd,bhde->bhe", q, S) / den[..., None]
        return self.sortie(y.flatten(1)), (S, z)

"""Attention à requêtes groupées, pour charger les poids d'un modèle type Mistral."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class AttentionGroupee(nn.Module):
    """
    `tetes` têtes de requête, `tetes_kv` têtes clé/valeur. La tête de requête t utilise la
    tête clé/valeur t // (tetes / tetes_kv), comme dans les poids publiés.

    entree : (lot, longueur, dim). Masque causal toujours actif.
    """

    def __init__(self, dim, tetes, tetes_kv, dim_tete=None):
        super().__init__()
        self.tetes, self.tetes_kv = tetes, tetes_kv
        self.dim_tete = dim_tete or dim // tetes
        self.groupe = tetes // tetes_kv
        self.q_proj = nn.Linear(dim, tetes * self.dim_tete, bias=False)
        self.k_proj = nn.Linear(dim, tetes_kv * self.dim_tete, bias=False)
        self.v_proj = nn.Linear(dim, tetes_kv * self.dim_tete, bias=False)
        self.o_proj = nn.Linear(tetes * self.dim_tete, dim, bias=False)

    def decouper(self, t, n):
        lot, longueur, _ = t.shape
        return t.view(lot, longueur, n, self.dim_tete).transpose(1, 2)

    def etendre(self, t):
        if self.groupe == 1:
            return t
        return t.repeat(1, self.groupe, 1, 1)

    def forward(self, entree, cos=None, sin=None):
        q = self.decouper(self.q_proj(entree), self.tetes)
        k = self.decouper(self.k_proj(entree), self.tetes_kv)
        v = self.decouper(self.v_proj(entree), self.tetes_kv)
        if cos is not None:
            q, k = tourner(q, cos, sin), tourner(k, cos, sin)
        sortie = F.scaled_dot_product_attention(q, self.etendre(k), self.etendre(v), is_causal=True)
        return self.o_proj(sortie.transpose(1, 2).flatten(2))


def tables(longueur, dim_tete, base=10000.0):
    f = base ** (-torch.arange(0, dim_tete, 2).float() / dim_tete)
    a = torch.arange(longueur).float()[:, None] * f
    a = torch.cat((a, a), -1)
    return a.cos(), a.sin()


def tourner(x, cos, sin):
    gauche, droite = x.chunk(2, -1)
    return x * cos + torch.cat((-droite, gauche), -1) * sin

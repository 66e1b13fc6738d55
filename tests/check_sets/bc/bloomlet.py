"""Petit port de BLOOM pour la génération de noms de plantes (atelier d'été).

Le poids fusionné query_key_value garde l'ordre du checkpoint : (tête, 3, dim_tête).
"""
import math

import torch
from torch import nn


def pentes_alibi(n):
    """Pentes d'ALiBi, aussi pour n qui n'est pas une puissance de deux."""
    plus_proche = 2 ** math.floor(math.log2(n))
    base = 2 ** (-(2 ** -(math.log2(plus_proche) - 3)))
    p = [base ** (i + 1) for i in range(plus_proche)]
    if plus_proche != n:
        extra = 2 ** (-(2 ** -(math.log2(2 * plus_proche) - 3)))
        reste = min(plus_proche, n - plus_proche)
        p += [extra ** k for k in range(1, 1 + 2 * reste, 2)]
    return torch.tensor(p)


def construire_alibi(masque, n_tetes):
    """(b, n_tetes, 1, L). Seule la position de la clé compte: le softmax est invariant
    à la constante pente * i de chaque ligne."""
    position = ((masque.cumsum(-1) - 1) * masque)[:, None, None, :]
    return pentes_alibi(n_tetes).to(masque.device)[None, :, None, None] * position


class BloomletAttention(nn.Module):
    """masque (b, L) : 1 = jeton réel, 0 = bourrage. Toujours causale."""

    def __init__(self, taille, n_tetes, p_abandon=0.0):
        super().__init__()
        assert taille % n_tetes == 0
        self.n_tetes, self.dim = n_tetes, taille // n_tetes
        self.query_key_value = nn.Linear(taille, 3 * taille)
        self.dense = nn.Linear(taille, taille)
        self.abandon = nn.Dropout(p_abandon)
        self.inv_norm = 1.0 / math.sqrt(self.dim)

    def _couper(self, fusion):
        b, L, _ = fusion.shape
        fusion = fusion.view(b, L, self.n_tetes, 3, self.dim)
        return (fusion[..., i, :].transpose(1, 2) for i in range(3))

    def forward(self, x, masque=None):
        b, L, taille = x.shape
        if masque is None:
            masque = torch.ones(b, L, dtype=torch.long, device=x.device)
        masque = masque.long()
        q, k, v = self._couper(self.query_key_value(x))
        alibi = construire_alibi(masque, self.n_tetes).to(x.dtype)
        s = alibi + self.inv_norm * torch.matmul(q, k.transpose(-1, -2))
        interdit = torch.ones(L, L, dtype=torch.bool, device=x.device).triu(1)
        interdit = interdit[None, None] | (masque == 0)[:, None, None, :]
        s = s.float().masked_fill(interdit, torch.finfo(torch.float32).min)
        p = torch.softmax(s, dim=-1).to(x.dtype)
        p = self.abandon(p)
        o = (p @ v).permute(0, 2, 1, 3).reshape(b, L, taille)
        return self.dense(o)

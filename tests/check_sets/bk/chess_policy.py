# -*- coding: utf-8 -*-
"""Politique « coup suivant » pour un petit moteur d'échecs.

On lit la partie comme une suite de demi-coups.  Pas de plongement de position :
un biais linéaire (ALiBi, Press et al. 2022) suffit, et la partie peut être plus
longue que celles de l'entraînement.
"""
import math

import torch
import torch.nn as nn

NB_COUPS = 1968          # coups UCI distincts


def pentes(nb_tetes):
    """Pentes ALiBi. Si nb_tetes n'est pas une puissance de 2, on complète avec
    un terme sur deux de la suite de la puissance supérieure (code des auteurs)."""
    def puissance(n):
        depart = 2.0 ** (-8.0 / n)
        return [depart ** (i + 1) for i in range(n)]

    p = 2 ** int(math.floor(math.log2(nb_tetes)))
    suite = puissance(p)
    if p < nb_tetes:
        suite += puissance(2 * p)[0::2][: nb_tetes - p]
    return torch.tensor(suite)


class AttentionPartie(nn.Module):
    """Auto-attention causale avec ALiBi et cache.

    entree : [B, N, C], les N demi-coups nouveaux
    passe  : None ou (cles, valeurs) [B, H, M, d] des demi-coups déjà lus
    rend   : (sortie [B, N, C], (cles, valeurs))
    """

    def __init__(self, largeur, nb_tetes):
        super().__init__()
        assert largeur % nb_tetes == 0
        self.h = nb_tetes
        self.d = largeur // nb_tetes
        self.qkv = nn.Linear(largeur, 3 * largeur)
        self.sortie = nn.Linear(largeur, largeur)
        self.register_buffer("m", pentes(nb_tetes).view(1, -1, 1, 1), persistent=False)

    def _decoupe(self, x):
        b, n, _ = x.shape
        return x.view(b, n, self.h, self.d).transpose(1, 2)

    def forward(self, entree, passe=None):
        b, n, c = entree.shape
        q, k, v = map(self._decoupe, self.qkv(entree).split(c, dim=2))
        if passe is not None:
            k = torch.cat((passe[0], k), dim=2)
            v = torch.cat((passe[1], v), dim=2)
        total = k.size(2)
        lignes = torch.arange(total - n, total, device=entree.device).unsqueeze(1)
        colonnes = torch.arange(total, device=entree.device).unsqueeze(0)
        recul = colonnes - lignes                       # <= 0 pour le passé
        scores = q.matmul(k.transpose(2, 3)) / self.d ** 0.5
        scores = scores + self.m.to(scores) * recul
        scores = scores.masked_fill(recul > 0, -math.inf)
        poids = torch.softmax(scores, dim=3)
        y = poids.matmul(v).transpose(1, 2).reshape(b, n, c)
        return self.sortie(y), (k, v)


class PolitiqueCoups(nn.Module):
    def __init__(self, largeur=48, nb_tetes=6, couches=2):
        super().__init__()
        self.coup = nn.Embedding(NB_COUPS, largeur)
        self.norm = nn.ModuleList(nn.LayerNorm(largeur) for _ in range(couches))
        self.att = nn.ModuleList(AttentionPartie(largeur, nb_tetes) for _ in range(couches))
        self.tete = nn.Linear(largeur, NB_COUPS)

    def forward(self, coups):
        x = self.coup(coups)
        for n, a in zip(self.norm, self.att):
            x = x + a(n(x))[0]
        return self.tete(x)

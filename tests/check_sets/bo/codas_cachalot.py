# -*- coding: utf-8 -*-
"""Classification des codas de cachalots (clics sociaux) — bloc d'attention.

Chaque coda est une suite d'intervalles inter-clics (ICI) ; un individu peut
très bien « n'écouter personne », d'où le puits appris par tête.
"""
import math

import torch
from torch import nn

ICI_MAX = 0.8          # secondes, au-delà on coupe la coda
NB_CLANS = 7


def decouper_codas(instants, seuil=ICI_MAX):
    """Découpe une liste d'instants de clics en codas."""
    codas, courante = [], [instants[0]]
    for a, b in zip(instants, instants[1:]):
        if b - a > seuil:
            codas.append(courante)
            courante = []
        courante.append(b)
    codas.append(courante)
    return codas


class CodaAttention(nn.Module):
    """Auto-attention bidirectionnelle avec un puits (« sink ») par tête.

    x       : (lot, n_clics, dim)
    valide  : (lot, n_clics) booléen, True = vrai clic, False = remplissage
    retour  : (lot, n_clics, dim)

    Le logit du puits entre dans le dénominateur du softmax mais n'a pas de
    valeur : la somme des poids d'une ligne est donc < 1, c'est voulu.
    """

    def __init__(self, dim=48, tetes=6):
        super().__init__()
        assert dim % tetes == 0
        self.tetes, self.dt = tetes, dim // tetes
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.sortie = nn.Linear(dim, dim)
        self.puits = nn.Parameter(torch.randn(tetes))

    def _tetes(self, t):
        lot, n, _ = t.shape
        return t.reshape(lot, n, self.tetes, self.dt).transpose(1, 2)

    def forward(self, x, valide=None):
        lot, n, dim = x.shape
        q, k, v = (self._tetes(f(x)) for f in (self.q, self.k, self.v))
        logits = (q @ k.mT).float() / math.sqrt(self.dt)
        if valide is not None:
            logits = logits.masked_fill(~valide[:, None, None, :], float("-inf"))
        puits = self.puits.float().view(1, -1, 1, 1).expand(lot, -1, n, 1)
        poids = torch.softmax(torch.cat([logits, puits], dim=-1), dim=-1)
        poids = poids[..., :-1].to(v.dtype)      # on jette la colonne du puits
        y = (poids @ v).transpose(1, 2).reshape(lot, n, dim)
        return self.sortie(y)


class ClassifieurDeClan(nn.Module):
    def __init__(self, dim=48, couches=2):
        super().__init__()
        self.entree = nn.Linear(1, dim)
        self.blocs = nn.ModuleList(CodaAttention(dim) for _ in range(couches))
        self.normes = nn.ModuleList(nn.LayerNorm(dim) for _ in range(couches))
        self.tete = nn.Linear(dim, NB_CLANS)

    def forward(self, ici, valide):
        h = self.entree(ici.unsqueeze(-1))
        for bloc, norme in zip(self.blocs, self.normes):
            h = h + bloc(norme(h), valide)
        w = valide.unsqueeze(-1).to(h.dtype)
        return self.tete((h * w).sum(1) / w.sum(1).clamp(min=1))

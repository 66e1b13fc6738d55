"""Résumé d'avis clients : attention croisée entre aspects et phrases.

Chaque « aspect » appris (prix, accueil, cuisine, ...) interroge les phrases d'un
restaurant.  `valide` : bool [lot, n], True = vraie phrase, False = remplissage (ces
phrases ne doivent avoir aucun poids).  Au moins une phrase vraie par restaurant.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class AttentionAspects(nn.Module):
    """phrases [lot, n, dim], valide [lot, n] -> (aspects [lot, a, dim], poids [lot, tetes, a, n])

    Produit scalaire divisé par la racine de la largeur d'une tête ; abandon
    (dropout) sur les poids pendant l'apprentissage.  Les poids rendus sont ceux
    d'avant l'abandon.
    """

    def __init__(self, dim=40, tetes=4, n_aspects=6, abandon=0.1):
        super().__init__()
        self.tetes = tetes
        self.largeur = dim // tetes
        self.abandon = abandon
        self.aspects = nn.Parameter(torch.randn(n_aspects, dim) * 0.2)
        self.vers_q = nn.Linear(dim, dim)
        self.vers_k = nn.Linear(dim, dim)
        self.vers_v = nn.Linear(dim, dim)
        self.sortie = nn.Linear(dim, dim)

    def couper(self, x):
        lot, n, _ = x.shape
        return x.view(lot, n, self.tetes, self.largeur).transpose(1, 2)

    def forward(self, phrases, valide):
        lot = phrases.size(0)
        q = self.couper(self.vers_q(self.aspects).unsqueeze(0).expand(lot, -1, -1))
        k = self.couper(self.vers_k(phrases))
        v = self.couper(self.vers_v(phrases))

        score = torch.matmul(q, k.transpose(-2, -1)) / self.largeur ** 0.5
        score = score * valide[:, None, None, :].to(score.dtype)
        poids = F.softmax(score, dim=-1)

        y = torch.matmul(F.dropout(poids, p=self.abandon), v)
        y = y.transpose(1, 2).reshape(lot, -1, self.tetes * self.largeur)
        return self.sortie(y), poids


class NoteParAspect(nn.Module):
    def __init__(self, dim=40):
        super().__init__()
        self.attention = AttentionAspects(dim)
        self.note = nn.Sequential(nn.Linear(dim, dim), nn.Tanh(), nn.Linear(dim, 1))

    def forward(self, phrases, valide):
        z, _ = self.attention(phrases, valide)
        return self.note(z).squeeze(-1)

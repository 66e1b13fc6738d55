"""Attention croisée du décodeur (traducteur fr -> en), version `bmm` repliée.

Les têtes sont repliées dans la dimension du lot : indice b * n_tetes + t.  Le masque de la
source est donc répété tête par tête pour chaque phrase (repeat_interleave).
Extrait de mon TP ; la référence est nn.MultiheadAttention.
"""
import torch
import torch.nn as nn


class AttentionCroisee(nn.Module):
    """
    cible        (lot, Lc, dim)   états du décodeur
    source       (lot, Ls, dim)   sorties de l'encodeur
    longueurs    (lot,) entiers   nombre de mots réels de chaque phrase source, au moins 1
    Renvoie (lot, Lc, dim) et les poids (lot, n_tetes, Lc, Ls).
    """

    def __init__(self, dim, n_tetes):
        super().__init__()
        self.n_tetes = n_tetes
        self.dt = dim // n_tetes
        self.requete = nn.Linear(dim, dim)
        self.cle = nn.Linear(dim, dim)
        self.valeur = nn.Linear(dim, dim)
        self.sortie = nn.Linear(dim, dim)

    def replier(self, x):
        lot, L, _ = x.shape
        x = x.view(lot, L, self.n_tetes, self.dt).transpose(1, 2)
        return x.reshape(lot * self.n_tetes, L, self.dt)

    def deplier(self, x):
        L = x.size(1)
        x = x.view(-1, self.n_tetes, L, self.dt).transpose(1, 2)
        return x.reshape(x.size(0), L, self.n_tetes * self.dt)

    def forward(self, cible, source, longueurs):
        Q = self.replier(self.requete(cible))
        K = self.replier(self.cle(source))
        V = self.replier(self.valeur(source))
        Ls = source.size(1)
        bourrage = torch.arange(Ls, device=source.device) >= longueurs.unsqueeze(1)
        bourrage = bourrage.repeat_interleave(self.n_tetes, dim=0).unsqueeze(1)
        # baddbmm : le masque additif et le produit en un seul appel
        biais = torch.zeros(bourrage.shape, dtype=Q.dtype, device=Q.device)
        biais = biais.masked_fill(bourrage, float("-inf")).expand(-1, Q.size(1), -1)
        e = torch.baddbmm(biais, Q, K.transpose(1, 2), alpha=self.dt ** -0.5)
        alpha = torch.softmax(e, dim=2)
        y = self.deplier(torch.bmm(alpha, V))
        return self.sortie(y), alpha.view(-1, self.n_tetes, *alpha.shape[1:])

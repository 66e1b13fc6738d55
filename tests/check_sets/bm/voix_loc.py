# Synthèse vocale bretonne — décodeur à attention sensible à la position
# (Chorowski et al. 2015, tel qu'employé dans Tacotron 2).
#
# À chaque trame : e_j = v . tanh(W s + V h_j + U f_j + b), où f vient d'une
# convolution sur [poids précédents ; poids cumulés].

import torch
from torch import nn
import torch.nn.functional as F


class CoucheLocale(nn.Module):
    def __init__(self, filtres, noyau, dim):
        super().__init__()
        self.conv = nn.Conv1d(2, filtres, noyau, padding=noyau // 2, bias=False)
        self.proj = nn.Linear(filtres, dim, bias=False)

    def forward(self, historique):
        return self.proj(self.conv(historique).transpose(1, 2))


class AttentionLocale(nn.Module):
    def __init__(self, dim_requete, dim_memoire, dim=32, filtres=8, noyau=7):
        super().__init__()
        self.W = nn.Linear(dim_requete, dim, bias=False)
        self.V = nn.Linear(dim_memoire, dim, bias=True)
        self.v = nn.Linear(dim, 1, bias=False)
        self.locale = CoucheLocale(filtres, noyau, dim)

    def prepare(self, memoire):
        """À appeler une fois par phrase : la projection des clés ne change pas."""
        return self.V(memoire)

    def forward(self, requete, memoire, cles, precedents, cumul, bourrage):
        """
        requete    (B, dim_requete)      état du décodeur
        memoire    (B, T, dim_memoire)   sorties de l'encodeur
        cles       (B, T, dim)           résultat de ``prepare``
        precedents (B, T)                poids de la trame d'avant
        cumul      (B, T)                somme de tous les poids passés
        bourrage   (B, T) bool           True = bourrage, jamais regardé

        rend (contexte (B, dim_memoire), poids (B, T))
        """
        hist = torch.stack((precedents, cumul), dim=1)
        e = self.v(torch.tanh(self.W(requete)[:, None] + cles + self.locale(hist))).squeeze(-1)
        e = e.masked_fill(bourrage, -float("inf"))
        poids = F.softmax(e, dim=1)
        contexte = torch.bmm(poids[:, None], memoire).squeeze(1)
        return contexte, poids


class Decodeur(nn.Module):
    N_MEL = 40

    def __init__(self, dim_memoire=48, dim=64):
        super().__init__()
        self.pre = nn.Sequential(nn.Linear(self.N_MEL, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
        self.att_rnn = nn.LSTMCell(32 + dim_memoire, dim)
        self.att = AttentionLocale(dim, dim_memoire)
        self.dec_rnn = nn.LSTMCell(dim + dim_memoire, dim)
        self.mel = nn.Linear(dim + dim_memoire, self.N_MEL)
        self.fin = nn.Linear(dim + dim_memoire, 1)
        self.dim = dim

    def forward(self, memoire, longueurs, mels):
        """Apprentissage avec les vraies trames : mels (B, N, N_MEL), décalées d'une trame ici."""
        B, T, M = memoire.shape
        zero = memoire.new_zeros
        h1, c1, h2, c2 = (zero(B, self.dim) for _ in range(4))
        ctx, poids, cumul = zero(B, M), zero(B, T), zero(B, T)
        bourrage = torch.arange(T, device=memoire.device)[None] >= longueurs[:, None]
        cles = self.att.prepare(memoire)
        trame = zero(B, self.N_MEL)
        sorties, arrets, alignement = [], [], []
        for n in range(mels.shape[1]):
            h1, c1 = self.att_rnn(torch.cat([self.pre(trame), ctx], -1), (h1, c1))
            ctx, poids = self.att(h1, memoire, cles, poids, cumul, bourrage)
            cumul = cumul + poids
            h2, c2 = self.dec_rnn(torch.cat([h1, ctx], -1), (h2, c2))
            y = torch.cat([h2, ctx], -1)
            sorties.append(self.mel(y))
            arrets.append(self.fin(y))
            alignement.append(poids)
            trame = mels[:, n]
        return torch.stack(sorties, 1), torch.cat(arrets, 1), torch.stack(alignement, 1)

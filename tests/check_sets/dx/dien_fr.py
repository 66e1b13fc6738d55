"""DIEN (Zhou et al. 2019) : évolution des intérêts avec AUGRU, pour la boutique de BD.

historique (B, T, D)  plongements des articles vus, du plus ancien au plus récent
cible      (B, D)     plongement de l'article à noter
longueur   (B,)       nombre d'articles réels (au moins 1) ; la suite de la ligne est du remplissage
retour     (B,)       logit du clic

1. une GRU extrait les intérêts h_t
2. attention : a_t = exp(h_t W e_cible) / somme sur t de exp(h_t W e_cible), calculée pour
   chaque client sur ses articles réels ; le remplissage a le poids 0
3. AUGRU : la porte de mise à jour u_t est multipliée par a_t ; le dernier état réel est gardé
4. un perceptron note [état final ; cible]
"""
import torch
import torch.nn as nn


class CelluleAUGRU(nn.Module):
    def __init__(self, D):
        super().__init__()
        self.portes = nn.Linear(2 * D, 2 * D)
        self.candidat = nn.Linear(2 * D, D)

    def forward(self, i, h, a):
        u, r = torch.sigmoid(self.portes(torch.cat([i, h], 1))).chunk(2, 1)
        n = torch.tanh(self.candidat(torch.cat([i, r * h], 1)))
        u = a.unsqueeze(1) * u
        return (1 - u) * h + u * n


class DIEN(nn.Module):
    def __init__(self, D=16, cache=32):
        super().__init__()
        self.gru = nn.GRU(D, D, batch_first=True)
        self.W = nn.Parameter(torch.randn(D, D) / D ** 0.5)
        self.augru = CelluleAUGRU(D)
        self.note = nn.Sequential(nn.Linear(2 * D, cache), nn.PReLU(), nn.Linear(cache, 1))

    def poids(self, h, cible, reel):
        scores = torch.einsum("btd,de,be->bt", h, self.W, cible)
        scores = scores.masked_fill(~reel, -1e9)
        return torch.softmax(scores, dim=0)

    def forward(self, historique, cible, longueur):
        B, T, D = historique.shape
        h, _ = self.gru(historique)
        reel = torch.arange(T, device=cible.device)[None] < longueur[:, None]
        a = self.poids(h, cible, reel)
        etat = historique.new_zeros(B, D)
        for t in range(T):
            nouveau = self.augru(h[:, t], etat, a[:, t])
            etat = torch.where(reel[:, t, None], nouveau, etat)
        return self.note(torch.cat([etat, cible], dim=1)).squeeze(1)

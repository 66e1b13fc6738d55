"""Le Transformeur annoté - encodeur seul, pour la classification de phrases (TP n° 5).

Rappel de l'article (section 3.4) : les plongements sont multipliés par sqrt(d_model) avant
l'ajout du codage positionnel sinusoïdal. Couches « pré-norme ».
`masque` : (B, L), vrai pour un mot, faux pour le remplissage.
"""
import math

import torch
import torch.nn as nn


def codage_positionnel(longueur, d):
    pos = torch.arange(longueur).unsqueeze(1)
    div = torch.exp(torch.arange(0, d, 2) * -(math.log(10000.0) / d))
    pe = torch.zeros(longueur, d)
    pe[:, 0::2] = torch.sin(pos * div)
    pe[:, 1::2] = torch.cos(pos * div)
    return pe


def attention(requete, cle, valeur, masque=None):
    d_k = requete.size(-1)
    scores = requete @ cle.transpose(-2, -1) / math.sqrt(d_k)
    if masque is not None:
        scores = scores.masked_fill(masque == 0, -1e9)
    p = scores.softmax(dim=-1)
    return p @ valeur


class Couche(nn.Module):
    def __init__(self, d, h, d_ff):
        super().__init__()
        self.h = h
        self.lin = nn.ModuleList([nn.Linear(d, d) for _ in range(4)])
        self.ff = nn.Sequential(nn.Linear(d, d_ff), nn.ReLU(), nn.Linear(d_ff, d))
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)

    def tetes(self, x):
        return x.view(x.size(0), -1, self.h, x.size(-1) // self.h).transpose(1, 2)

    def forward(self, x, masque):
        y = self.n1(x)
        q, k, v = [self.tetes(l(y)) for l in self.lin[:3]]
        z = attention(q, k, v, masque).transpose(1, 2).contiguous().view(x.shape)
        x = x + self.lin[3](z)
        return x + self.ff(self.n2(x))


class Encodeur(nn.Module):
    def __init__(self, vocab, d_model=32, h=4, d_ff=64, N=2, max_len=64):
        super().__init__()
        self.d_model = d_model
        self.plongement = nn.Embedding(vocab, d_model)
        self.register_buffer("pe", codage_positionnel(max_len, d_model))
        self.couches = nn.ModuleList([Couche(d_model, h, d_ff) for _ in range(N)])
        self.norme = nn.LayerNorm(d_model)

    def forward(self, mots, masque):
        x = self.plongement(mots) / math.sqrt(self.d_model)
        x = x + self.pe[:mots.size(1)]
        m = masque[:, None, None, :]
        for couche in self.couches:
            x = couche(x, m)
        return self.norme(x)


if __name__ == "__main__":
    enc = Encodeur(50)
    mots = torch.randint(1, 50, (2, 7))
    print(enc(mots, torch.ones(2, 7, dtype=torch.bool)).shape)

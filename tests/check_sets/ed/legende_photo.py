"""Légendes automatiques pour un fonds de photographies (mémoire de master).

photos  (B, 3, H, W)
mots    (B, L) long, la légende décalée (commence par <debut>), 0 = remplissage à droite
rend    (B, L, vocabulaire) : logits du mot suivant à chaque position

Le mot i voit les mots 0..i de la légende (jamais le remplissage) et toute l'image.
Rappel PyTorch : dans les masques booléens de nn.Transformer*, True = interdit.
"""
import math

import torch
from torch import nn


class Positions(nn.Module):
    """pe[p, 2i] = sin(p / 10000^(2i/d)), pe[p, 2i+1] = cos(du même angle)"""

    def __init__(self, d, longueur=100):
        super().__init__()
        p = torch.arange(longueur).unsqueeze(1)
        f = torch.exp(torch.arange(0, d, 2) * (-math.log(10000.0) / d))
        pe = torch.zeros(longueur, d)
        pe[:, 0::2] = torch.sin(p * f)
        pe[:, 1::2] = torch.cos(p * f)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[: x.size(1)]


class Legende(nn.Module):
    def __init__(self, vocabulaire, d=64, tetes=4, couches=2, p=0.1):
        super().__init__()
        self.image = nn.Sequential(
            nn.Conv2d(3, 32, 5, stride=4, padding=2), nn.ReLU(),
            nn.Conv2d(32, d, 5, stride=4, padding=2), nn.ReLU(),
        )
        self.mot = nn.Embedding(vocabulaire, d, padding_idx=0)
        self.positions = Positions(d)
        couche = nn.TransformerDecoderLayer(
            d, tetes, 4 * d, dropout=p, batch_first=True, norm_first=True
        )
        self.decodeur = nn.TransformerDecoder(couche, couches, norm=nn.LayerNorm(d))
        self.sortie = nn.Linear(d, vocabulaire)

    def forward(self, photos, mots):
        memoire = self.image(photos).flatten(2).transpose(1, 2)
        x = self.positions(self.mot(mots))
        n = mots.size(1)
        futur = torch.triu(torch.ones(n, n, dtype=torch.bool, device=mots.device), diagonal=1)
        y = self.decodeur(x, memoire, tgt_mask=futur, tgt_key_padding_mask=mots.eq(0))
        return self.sortie(y)

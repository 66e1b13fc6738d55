"""Décodeur de détection à la DETR : des requêtes d'objets lisent une carte d'images.

Chaque couche (post-norm) :
    1. auto-attention entre les requêtes d'objets d'une même image ;
    2. attention croisée des requêtes vers les pixels de leur image ;
    3. perceptron.

Comme dans DETR, l'encodage de position `pos` est ajouté aux clés (pixels), et
l'encodage des requêtes `qpos` aux requêtes et aux clés de l'auto-attention, mais jamais
aux valeurs.

Conventions (tout est « batch d'abord ») :
    tgt  (B, N, D) requêtes            qpos (N, D)
    mem  (B, P, D) pixels aplatis      pos  (B, P, D)
    pad  (B, P) booléen, True = pixel de remplissage (à ignorer), ou None
    sortie (B, N, D)

Les images du lot sont indépendantes les unes des autres.
"""
import torch
from torch import nn
import torch.nn.functional as F


class CoucheObjets(nn.Module):
    def __init__(self, d=32, tetes=4, ff=64, p=0.1):
        super().__init__()
        self.auto = nn.MultiheadAttention(d, tetes, dropout=p)
        self.croisee = nn.MultiheadAttention(d, tetes, dropout=p, batch_first=True)
        self.l1, self.l2 = nn.Linear(d, ff), nn.Linear(ff, d)
        self.n1, self.n2, self.n3 = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)
        self.drop = nn.Dropout(p)

    def forward(self, tgt, mem, qpos, pos, pad=None):
        q = tgt + qpos
        y = self.auto(q, q, tgt, need_weights=False)[0]
        tgt = self.n1(tgt + self.drop(y))
        y = self.croisee(tgt + qpos, mem + pos, mem, key_padding_mask=pad, need_weights=False)[0]
        tgt = self.n2(tgt + self.drop(y))
        y = self.l2(self.drop(F.relu(self.l1(tgt))))
        return self.n3(tgt + self.drop(y))

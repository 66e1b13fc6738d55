"""Couche de décodeur DETR (post-norm), réécrite pour le TP de vision.

Toutes les séquences sont au format (longueur, lot, canaux), celui par défaut
de nn.MultiheadAttention. Les positions (object queries et encodage 2D) sont
ajoutées aux requêtes et aux clés, jamais aux valeurs.
"""
import math

import torch
from torch import nn
import torch.nn.functional as F


def encodage_2d(h, w, c, temperature=10000.0):
    """Encodage sinusoïdal 2D, (h*w, 1, c), moitié y, moitié x."""
    n = c // 2
    i = torch.arange(n)
    freq = temperature ** (2 * (i // 2).float() / n)
    pas = 2 * math.pi
    y = torch.arange(1, h + 1).float() / h * pas
    x = torch.arange(1, w + 1).float() / w * pas

    def sincos(t):
        a = t[:, None] / freq
        return torch.stack((a[:, 0::2].sin(), a[:, 1::2].cos()), dim=2).flatten(1)

    py = sincos(y)[:, None, :].expand(h, w, n)
    px = sincos(x)[None, :, :].expand(h, w, n)
    return torch.cat((py, px), dim=2).reshape(h * w, 1, c)


class CoucheDecodeur(nn.Module):
    def __init__(self, d_model=32, nhead=4, dim_ff=64, dropout=0.1):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, nhead, dropout=dropout)
        self.cross_attn = nn.MultiheadAttention(d_model, nhead, dropout=dropout)
        self.ff1, self.ff2 = nn.Linear(d_model, dim_ff), nn.Linear(dim_ff, d_model)
        self.n1, self.n2, self.n3 = (nn.LayerNorm(d_model) for _ in range(3))
        self.drop = nn.Dropout(dropout)

    def forward(self, tgt, memory, query_pos, pos, memory_key_padding_mask=None):
        # tgt, query_pos : (N, B, C) ; memory : (HW, B, C) ; pos : (HW, 1, C)
        # memory_key_padding_mask : (B, HW), True = pixel de remplissage
        q = k = tgt + query_pos
        a, _ = self.self_attn(q, k, value=tgt, need_weights=False)
        tgt = self.n1(tgt + self.drop(a))
        a, poids = self.cross_attn(
            query=tgt + query_pos, key=memory + pos, value=memory,
            key_padding_mask=memory_key_padding_mask)
        tgt = self.n2(tgt + self.drop(a))
        f = self.ff2(self.drop(F.relu(self.ff1(tgt))))
        return self.n3(tgt + self.drop(f)), poids


class Detecteur(nn.Module):
    """Décodeur complet : `n_obj` requêtes apprises, classes et boîtes."""

    def __init__(self, d_model=32, nhead=4, couches=2, n_obj=5, n_classes=3):
        super().__init__()
        self.requetes = nn.Embedding(n_obj, d_model)
        self.couches = nn.ModuleList(CoucheDecodeur(d_model, nhead) for _ in range(couches))
        self.classes = nn.Linear(d_model, n_classes + 1)
        self.boites = nn.Linear(d_model, 4)

    def forward(self, carte, masque=None):
        """carte : (B, C, H, W), masque : (B, H, W) bool, True = remplissage."""
        B, C, H, W = carte.shape
        memoire = carte.flatten(2).permute(2, 0, 1)
        pos = encodage_2d(H, W, C).to(carte)
        qpos = self.requetes.weight[:, None].expand(-1, B, -1)
        tgt = torch.zeros_like(qpos)
        kpm = None if masque is None else masque.flatten(1)
        for c in self.couches:
            tgt, _ = c(tgt, memoire, qpos, pos, kpm)
        tgt = tgt.transpose(0, 1)
        return self.classes(tgt), self.boites(tgt).sigmoid()

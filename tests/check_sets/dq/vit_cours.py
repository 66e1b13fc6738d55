"""Cours de vision, séance 10 : un transformeur pour images (ViT) en 60 lignes.

Image -> carreaux -> vecteurs -> [CLS] + positions apprises -> blocs -> classe.
"""
import torch
from torch import nn


class Carreaux(nn.Module):
    """(B, 3, H, W) -> (B, N, dim), N = (H/p)(W/p), lus ligne par ligne."""

    def __init__(self, p, dim):
        super().__init__()
        self.conv = nn.Conv2d(3, dim, kernel_size=p, stride=p)

    def forward(self, img):
        return self.conv(img).flatten(2).mT


class AutoAttention(nn.Module):
    """Auto-attention à `tetes` têtes, x (B, N, dim) -> (B, N, dim).

    Toutes les positions se voient. Échelle 1/sqrt(dim/tetes). La projection qkv
    sort, dans l'ordre : q (toutes les têtes), k (toutes), v (toutes).
    """

    def __init__(self, dim, tetes):
        super().__init__()
        self.tetes = tetes
        self.echelle = (dim // tetes) ** -0.5
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, dim = x.shape
        q, k, v = self.qkv(x).view(B, N, 3, self.tetes, -1).permute(2, 0, 3, 1, 4)
        # on normalise sur les colonnes (les clés), l'avant-dernier axe ici
        # puisque les scores sont rangés [clé, requête]
        scores = (k * self.echelle) @ q.mT              # (B, tetes, clé, requête)
        poids = scores.softmax(dim=-2)
        y = poids.mT @ v
        return self.proj(y.transpose(1, 2).flatten(-2))


class ViT(nn.Module):
    """Images (B, 3, taille, taille) -> logits (B, classes)."""

    def __init__(self, taille=32, p=8, dim=48, tetes=4, blocs=2, classes=10):
        super().__init__()
        self.carreaux = Carreaux(p, dim)
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos = nn.Parameter(0.02 * torch.randn(1, (taille // p) ** 2 + 1, dim))
        self.n1 = nn.ModuleList(nn.LayerNorm(dim) for _ in range(blocs))
        self.n2 = nn.ModuleList(nn.LayerNorm(dim) for _ in range(blocs))
        self.att = nn.ModuleList(AutoAttention(dim, tetes) for _ in range(blocs))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
            for _ in range(blocs))
        self.tete = nn.Linear(dim, classes)

    def forward(self, img):
        x = self.carreaux(img)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], dim=1) + self.pos
        for n1, att, n2, mlp in zip(self.n1, self.att, self.n2, self.mlp):
            x = x + att(n1(x))
            x = x + mlp(n2(x))
        return self.tete(x[:, 0])

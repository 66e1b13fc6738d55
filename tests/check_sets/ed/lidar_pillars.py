"""Context between BEV pillars for the forklift's obstacle detector.

pillars  (B, N, F)  the N occupied pillars of each sweep, N fixed by sampling (no padding)
centre   (B, N, 2)  metric x, y of each pillar
->       (B, N, 3)  logits free / person / object per pillar

Pillars of one sweep exchange information with all pillars of the same sweep.  Sweeps of
a batch are different moments and have nothing to do with each other.
"""
import torch
from torch import nn


class ContextLayer(nn.Module):
    def __init__(self, dim, heads, p=0.1):
        super().__init__()
        self.att = nn.MultiheadAttention(dim, heads, dropout=p)
        self.norm1 = nn.LayerNorm(dim)
        self.norm2 = nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Dropout(p), nn.Linear(2 * dim, dim))

    def forward(self, x, pos):
        qk = x + pos
        y, _ = self.att(qk, qk, x, need_weights=False)
        x = self.norm1(x + y)
        return self.norm2(x + self.ff(x))


class PillarNet(nn.Module):
    def __init__(self, feats, dim=64, heads=4, depth=2):
        super().__init__()
        self.stem = nn.Sequential(nn.Linear(feats, dim), nn.LayerNorm(dim), nn.ReLU())
        self.where = nn.Sequential(nn.Linear(2, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.layers = nn.ModuleList(ContextLayer(dim, heads) for _ in range(depth))
        self.head = nn.Linear(dim, 3)

    def forward(self, pillars, centre):
        x, pos = self.stem(pillars), self.where(centre)
        for layer in self.layers:
            x = layer(x, pos)
        return self.head(x)

"""SASRec-ish next-item model for the bookshop recommender.

Histories are LEFT padded with item id 0.
"""
import torch
from torch import nn


class ItemSelfAttention(nn.Module):
    """real: (B, L) bool, True for true items. Position i reads real items j <= i;
    a position that has nothing to read returns zeros (before the output bias)."""

    def __init__(self, dim, heads, p=0.2):
        super().__init__()
        self.h = heads
        self.inp = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.drop = nn.Dropout(p)

    def forward(self, x, real):
        B, L, D = x.shape
        q, k, v = self.inp(x).chunk(3, dim=-1)
        q, k, v = [t.unflatten(-1, (self.h, D // self.h)).transpose(1, 2) for t in (q, k, v)]
        allowed = torch.ones(L, L, device=x.device).tril().bool() & real[:, None, None, :]
        s = q.matmul(k.transpose(-2, -1)).float() / (D // self.h) ** 0.5
        s = s.masked_fill(~allowed, -torch.inf)
        dead = ~allowed.any(-1, keepdim=True)
        a = s.masked_fill(dead, 0.0).softmax(-1).masked_fill(dead, 0.0).to(x.dtype)
        y = self.drop(a).matmul(v)
        return self.out(y.transpose(1, 2).flatten(2))


class NextItem(nn.Module):
    def __init__(self, n_items, dim=32, heads=2, max_len=50, layers=2):
        super().__init__()
        self.items = nn.Embedding(n_items + 1, dim, padding_idx=0)
        self.pos = nn.Embedding(max_len, dim)
        self.atts = nn.ModuleList(ItemSelfAttention(dim, heads) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))
        self.ffs = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim)) for _ in range(layers)
        )

    def forward(self, hist):
        real = hist != 0
        x = self.items(hist) + self.pos(torch.arange(hist.size(1), device=hist.device))
        for n, a, f in zip(self.norms, self.atts, self.ffs):
            x = x + a(n(x), real)
            x = x + f(x)
        return x[:, -1] @ self.items.weight.T

from dataclasses import dataclass, field
from typing import List

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class TabCfg:
    n_num: int = 5
    cards: List[int] = field(default_factory=lambda: [3, 7])
    dim: int = 24
    heads: int = 3
    drop: float = 0.1
    depth: int = 2
    n_out: int = 1


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.h, self.p = c.heads, c.drop
        self.n1, self.n2 = nn.LayerNorm(c.dim), nn.LayerNorm(c.dim)
        self.qkv = nn.Linear(c.dim, 3 * c.dim)
        self.o = nn.Linear(c.dim, c.dim)
        self.ff = nn.Sequential(nn.Linear(c.dim, 2 * c.dim), nn.GELU(), nn.Dropout(c.drop), nn.Linear(2 * c.dim, c.dim))

    def forward(self, x):
        b, n, e = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, n, 3, self.h, e // self.h).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.p if self.training else 0.0)
        x = x + self.o(y.transpose(1, 2).reshape(b, n, e))
        return x + self.ff(self.n2(x))


class TabNetFT(nn.Module):
    """num: (B, n_num) floats, cat: (B, len(cards)) ids -> (B, n_out).
    Every column becomes one token; the prediction is read off the extra one."""

    def __init__(self, cfg=None):
        super().__init__()
        c = cfg or TabCfg()
        self.w = nn.Parameter(torch.randn(c.n_num, c.dim) * 0.2)
        self.b = nn.Parameter(torch.zeros(c.n_num, c.dim))
        self.emb = nn.ModuleList(nn.Embedding(n, c.dim) for n in c.cards)
        self.cls = nn.Parameter(torch.randn(1, 1, c.dim) * 0.2)
        self.layers = nn.ModuleList(Layer(c) for _ in range(c.depth))
        self.head = nn.Sequential(nn.LayerNorm(c.dim), nn.ReLU(), nn.Linear(c.dim, c.n_out))

    def forward(self, num, cat):
        toks = [self.cls.expand(num.size(0), -1, -1), num.unsqueeze(-1) * self.w + self.b]
        toks += [e(cat[:, i])[:, None] for i, e in enumerate(self.emb)]
        x = torch.cat(toks, dim=1)
        for layer in self.layers:
            x = layer(x)
        return self.head(x[:, 0])

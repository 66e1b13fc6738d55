"""FT-Transformer for tables: one token per column plus [CLS], columns may be missing."""
from dataclasses import dataclass
from typing import List, Optional

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class TabConfig:
    n_num: int
    cardinalities: List[int]
    dim: int = 48
    heads: int = 6
    layers: int = 3
    attn_dropout: float = 0.2
    n_out: int = 1


class ColumnTokenizer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.w = nn.Parameter(torch.randn(cfg.n_num, cfg.dim) * 0.02)
        self.b = nn.Parameter(torch.zeros(cfg.n_num, cfg.dim))
        self.cat = nn.ModuleList(nn.Embedding(c, cfg.dim) for c in cfg.cardinalities)
        self.cls = nn.Parameter(torch.zeros(1, 1, cfg.dim))

    def forward(self, num, cat):
        parts = [self.cls.expand(num.shape[0], -1, -1),
                 torch.nan_to_num(num)[..., None] * self.w + self.b]
        parts += [e(cat[:, i])[:, None] for i, e in enumerate(self.cat)]
        return torch.cat(parts, 1)


class ColumnAttention(nn.Module):
    def __init__(self, cfg: TabConfig):
        super().__init__()
        self.heads = cfg.heads
        self.p = cfg.attn_dropout
        self.qkv = nn.Linear(cfg.dim, 3 * cfg.dim)
        self.proj = nn.Linear(cfg.dim, cfg.dim)

    def forward(self, x, observed: Optional[torch.Tensor] = None):
        """observed: bool [batch, tokens]; tokens that are False are never attended to."""
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        m = None if observed is None else observed.view(b, 1, 1, t)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=m, dropout_p=self.p if self.training else 0.0)
        return self.proj(y.transpose(1, 2).reshape(b, t, c))


class Layer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(cfg.dim), nn.LayerNorm(cfg.dim)
        self.att = ColumnAttention(cfg)
        self.a, self.b = nn.Linear(cfg.dim, 4 * cfg.dim), nn.Linear(2 * cfg.dim, cfg.dim)

    def forward(self, x, observed):
        x = x + self.att(self.n1(x), observed)
        u, g = self.a(self.n2(x)).chunk(2, -1)
        return x + self.b(u * F.relu(g))


class FTTransformer(nn.Module):
    def __init__(self, cfg: TabConfig):
        super().__init__()
        self.tok = ColumnTokenizer(cfg)
        self.layers = nn.ModuleList(Layer(cfg) for _ in range(cfg.layers))
        self.head = nn.Sequential(nn.LayerNorm(cfg.dim), nn.ReLU(), nn.Linear(cfg.dim, cfg.n_out))

    def forward(self, num, cat):
        x = self.tok(num, cat)
        seen = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)   # [CLS] is always there
        seen[:, 1:1 + num.shape[1]] = ~torch.isnan(num)
        for l in self.layers:
            x = l(x, seen)
        return self.head(x[:, 0])

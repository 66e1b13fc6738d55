"""Enhancer activity from DNA (STARR-seq). Decoder-only LM pre-training with ALiBi, 12 heads.

Slopes follow Press et al., "Train Short, Test Long" (the reference `get_slopes`), checkpoints are shared
with the fairseq implementation.
"""
import torch
import torch.nn as nn


def get_slopes(n_heads):
    return torch.tensor([2.0 ** (-8.0 * (h + 1) / n_heads) for h in range(n_heads)])


class AlibiAttention(nn.Module):
    """causal self attention, x [batch, bases, dim]; bias for key j seen from query i: -slope * (i - j)"""

    def __init__(self, dim, n_heads=12, dropout=0.0):
        super().__init__()
        self.n_heads = n_heads
        self.dh = dim // n_heads
        self.in_proj = nn.Linear(dim, 3 * dim)
        self.out_proj = nn.Linear(dim, dim)
        self.drop = nn.Dropout(dropout)
        self.register_buffer("slopes", get_slopes(n_heads).view(1, n_heads, 1, 1), persistent=False)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = (t.view(b, n, self.n_heads, self.dh).transpose(1, 2) for t in self.in_proj(x).split(c, dim=2))
        pos = torch.arange(n, device=x.device)
        dist = (pos[:, None] - pos[None, :]).to(x.dtype)
        att = q @ k.transpose(-1, -2) * self.dh ** -0.5
        att = att - self.slopes.to(x.dtype) * dist
        att = att.masked_fill(dist < 0, float("-inf"))
        att = self.drop(torch.softmax(att, dim=-1))
        return self.out_proj((att @ v).transpose(1, 2).reshape(b, n, c))


class Layer(nn.Module):
    def __init__(self, dim, heads, p):
        super().__init__()
        self.a, self.b = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.att = AlibiAttention(dim, heads, p)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Dropout(p), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = x + self.att(self.a(x))
        return x + self.mlp(self.b(x))


class EnhancerNet(nn.Module):
    BASES = "ACGTN"

    def __init__(self, dim=96, heads=12, depth=4, p=0.1):
        super().__init__()
        self.tok = nn.Embedding(len(self.BASES), dim)
        self.layers = nn.ModuleList([Layer(dim, heads, p) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.lm = nn.Linear(dim, len(self.BASES))
        self.activity = nn.Linear(dim, 2)

    @classmethod
    def encode(cls, s):
        return torch.tensor([[cls.BASES.index(c) if c in cls.BASES else 4 for c in s.upper()]])

    def forward(self, ids):
        x = self.tok(ids)
        for l in self.layers:
            x = l(x)
        x = self.norm(x)
        return self.lm(x), self.activity(x[:, -1])


def reverse_complement(ids):
    comp = torch.tensor([3, 2, 1, 0, 4], device=ids.device)
    return comp[ids].flip(-1)


def pearson(a, b):
    a, b = a - a.mean(0), b - b.mean(0)
    return (a * b).sum(0) / (a.norm(dim=0) * b.norm(dim=0) + 1e-8)

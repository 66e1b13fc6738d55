# Copyright the authors. MIT licence.
"""Encoder over atoms of one conformer with distances as a per-head bias.

atoms  (B, N) long, atomic numbers, 0 where the molecule is already over
xyz    (B, N, 3) coordinates in Angstrom (any finite numbers in the empty slots)
->     (B, N, dim), zero in the empty slots

Attention logits: q_i.k_j / sqrt(d) + b_h(|x_i - x_j|), with b_h a linear map of K
Gaussians of the distance.  Empty slots are never read.  A molecule has at least one
atom.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class DistanceBias(nn.Module):
    def __init__(self, heads, K=16, cutoff=10.0):
        super().__init__()
        self.register_buffer("mu", torch.linspace(0.0, cutoff, K))
        self.gamma = (K / cutoff) ** 2
        self.to_heads = nn.Linear(K, heads)

    def forward(self, xyz):
        r = (xyz[:, :, None] - xyz[:, None, :]).pow(2).sum(-1).clamp_min(1e-12).sqrt()
        g = torch.exp(-self.gamma * (r[..., None] - self.mu) ** 2)
        return self.to_heads(g).permute(0, 3, 1, 2)          # B H N N


class PairLayer(nn.Module):
    def __init__(self, dim, heads, p=0.0):
        super().__init__()
        self.h, self.p = heads, p
        self.ln_a, self.ln_f = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(dim, dim) for _ in range(4))
        self.f = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x, bias):
        B, N, D = x.shape
        y = self.ln_a(x)
        q, k, v = (w(y).view(B, N, self.h, -1).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        y = F.scaled_dot_product_attention(q, k, v, bias, self.p if self.training else 0.0)
        x = x + self.wo(y.transpose(1, 2).reshape(B, N, D))
        return x + self.f(self.ln_f(x))


class AtomPairs(nn.Module):
    def __init__(self, dim=64, heads=8, depth=2, elements=100):
        super().__init__()
        self.elem = nn.Embedding(elements, dim, padding_idx=0)
        self.dist = DistanceBias(heads)
        self.layers = nn.ModuleList(PairLayer(dim, heads) for _ in range(depth))

    def forward(self, atoms, xyz):
        empty = atoms == 0
        bias = self.dist(xyz).masked_fill(empty[:, None, None, :], float("-inf"))
        x = self.elem(atoms)
        for layer in self.layers:
            x = layer(x, bias)
        return x.masked_fill(empty.unsqueeze(-1), 0.0)

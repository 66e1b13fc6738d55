"""Molecule Attention Transformer (Maziarka et al. 2020), for solubility regression.

The weights of a head mix self-attention with the geometry and the bonds:

    w = l_a * softmax(Q K^T / sqrt(d)) + l_d * rownorm(exp(-D)) + l_g * rownorm(A)

where D is the matrix of interatomic distances and A the adjacency matrix, both
divided by their row sums over the real atoms. Atoms beyond the molecule are padding
(`real` is False) and get nothing.
"""
from typing import Tuple

import torch
from torch import nn


def row_norm(m: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    return m / (m.sum(-1, keepdim=True) + eps)


class MATLayer(nn.Module):
    def __init__(self, dim: int, heads: int, mix: Tuple[float, float, float]):
        super().__init__()
        self.heads, self.mix = heads, mix
        self.head_dim = dim // heads
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.query, self.key, self.value = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))

    def heads_first(self, t: torch.Tensor) -> torch.Tensor:
        return t.view(t.size(0), t.size(1), self.heads, self.head_dim).transpose(1, 2)

    def forward(self, x, dist, adj, real):
        h = self.ln1(x)
        q, k, v = map(self.heads_first, (self.query(h), self.key(h), self.value(h)))
        logits = torch.matmul(q, k.transpose(-2, -1)) / self.head_dim ** 0.5
        logits = logits.masked_fill(~real[:, None, None, :], -1e9)
        att = torch.softmax(logits, dim=1)

        pair = real[:, :, None] & real[:, None, :]
        geo = row_norm(torch.exp(-dist) * pair).unsqueeze(1)
        bond = row_norm(adj * pair).unsqueeze(1)
        l_a, l_d, l_g = self.mix
        w = l_a * att + l_d * geo + l_g * bond
        y = torch.matmul(w, v).transpose(1, 2).reshape(x.shape)
        x = x + self.out(y)
        return x + self.ff(self.ln2(x))


class MoleculeAttentionTransformer(nn.Module):
    """atoms [B, N, F], dist [B, N, N] in Angstrom, adj [B, N, N] 0/1, real [B, N] bool."""

    def __init__(self, n_feat=10, dim=30, heads=5, depth=2, mix=(0.5, 0.25, 0.25)):
        super().__init__()
        self.embed = nn.Linear(n_feat, dim)
        self.layers = nn.ModuleList(MATLayer(dim, heads, mix) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.readout = nn.Linear(dim, 1)

    def forward(self, atoms, dist, adj, real):
        x = self.embed(atoms)
        for layer in self.layers:
            x = layer(x, dist, adj, real)
        x = self.norm(x) * real.unsqueeze(-1)
        return self.readout(x.sum(1) / real.sum(1, keepdim=True)).squeeze(-1)

"""Graphormer-like property prediction for small molecules (padded batches)."""
from dataclasses import dataclass
import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class MolConfig:
    n_atom_types: int = 40
    n_bond_types: int = 5
    max_degree: int = 8
    max_dist: int = 12
    width: int = 48
    heads: int = 6
    layers: int = 3
    dropout: float = 0.1


def floyd(adj, cap):
    """Shortest path lengths (n, n) of a bool adjacency matrix, `cap` if unreachable."""
    n = adj.size(0)
    d = torch.full((n, n), cap, dtype=torch.long)
    d[adj] = 1
    d.fill_diagonal_(0)
    for k in range(n):
        d = torch.minimum(d, d[:, k:k + 1] + d[k:k + 1, :])
    return d.clamp(max=cap)


class BiasedSelfAttention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        assert cfg.width % cfg.heads == 0
        self.h = cfg.heads
        self.dk = cfg.width // cfg.heads
        self.in_proj = nn.Linear(cfg.width, 3 * cfg.width)
        self.out_proj = nn.Linear(cfg.width, cfg.width)
        self.p = cfg.dropout

    def forward(self, x, bias, atom_pad):
        """x (B, N, W); bias (B, h, N, N); atom_pad (B, N) True = no such atom.
        Every molecule has at least one atom."""
        B, N, W = x.shape
        q, k, v = self.in_proj(x).chunk(3, dim=-1)
        q = q.reshape(B, N, self.h, self.dk).permute(0, 2, 1, 3)
        k = k.reshape(B, N, self.h, self.dk).permute(0, 2, 3, 1)
        v = v.reshape(B, N, self.h, self.dk).permute(0, 2, 1, 3)
        s = torch.matmul(q, k).div(self.dk ** 0.5) + bias
        s = s.masked_fill(atom_pad[:, None, None, :], float("-inf"))
        a = s.softmax(-1)
        a = F.dropout(a, self.p, self.training)
        y = torch.matmul(a, v).permute(0, 2, 1, 3).flatten(2)
        return self.out_proj(y)


class Layer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(cfg.width), nn.LayerNorm(cfg.width)
        self.att = BiasedSelfAttention(cfg)
        self.ff = nn.Sequential(nn.Linear(cfg.width, 2 * cfg.width), nn.GELU(), nn.Linear(2 * cfg.width, cfg.width))

    def forward(self, x, bias, pad):
        x = x + self.att(self.ln1(x), bias, pad)
        return x + self.ff(self.ln2(x))


class MolTransformer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.atom = nn.Embedding(cfg.n_atom_types, cfg.width)
        self.degree = nn.Embedding(cfg.max_degree + 1, cfg.width)
        self.dist = nn.Embedding(cfg.max_dist + 1, cfg.heads)
        self.bond = nn.Embedding(cfg.n_bond_types, cfg.heads, padding_idx=0)
        self.layers = nn.ModuleList(Layer(cfg) for _ in range(cfg.layers))
        self.norm = nn.LayerNorm(cfg.width)
        self.head = nn.Linear(cfg.width, 1)

    def forward(self, atoms, degree, dist, bonds, pad):
        x = self.atom(atoms) + self.degree(degree)
        bias = (self.dist(dist) + self.bond(bonds)).movedim(-1, 1)
        for l in self.layers:
            x = l(x, bias, pad)
        keep = (~pad).unsqueeze(-1).to(x.dtype)
        x = (self.norm(x) * keep).sum(1) / keep.sum(1)
        return self.head(x).squeeze(-1)

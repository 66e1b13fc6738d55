# Re-implementation of the pair stack (AF2, Suppl. algorithms 13 and 14), for RNA.
import math
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class PairConfig:
    c_z: int = 32
    c_hidden: int = 8
    n_head: int = 4
    inf: float = 1e9


class TriangleAttention(nn.Module):
    """Triangular gated self-attention.

    starting=True : edge (i, j) attends over the edges (i, k), bias from (j, k)
    starting=False: edge (i, j) attends over the edges (k, j), bias from (k, i)

    z    : (N, N, c_z) pair representation
    mask : (N, N), 1 for real pairs, 0 for padding
    """

    def __init__(self, cfg: PairConfig, starting: bool = True):
        super().__init__()
        self.cfg, self.starting = cfg, starting
        hd = cfg.c_hidden * cfg.n_head
        self.norm = nn.LayerNorm(cfg.c_z)
        self.to_q = nn.Linear(cfg.c_z, hd, bias=False)
        self.to_k = nn.Linear(cfg.c_z, hd, bias=False)
        self.to_v = nn.Linear(cfg.c_z, hd, bias=False)
        self.to_b = nn.Linear(cfg.c_z, cfg.n_head, bias=False)
        self.to_g = nn.Linear(cfg.c_z, hd)
        self.out = nn.Linear(hd, cfg.c_z)

    def _heads(self, t):
        return t.unflatten(-1, (self.cfg.n_head, self.cfg.c_hidden))

    def forward(self, z, mask=None):
        if mask is None:
            mask = z.new_ones(z.shape[:-1])
        if not self.starting:
            z, mask = z.transpose(0, 1), mask.transpose(0, 1)
        z = self.norm(z)
        q = self._heads(self.to_q(z)) / math.sqrt(self.cfg.c_hidden)
        k = self._heads(self.to_k(z))
        v = self._heads(self.to_v(z))
        tri = self.to_b(z).permute(2, 0, 1)              # (h, j, k)
        key_bias = self.cfg.inf * (mask - 1.0)           # (i, k)

        logits = torch.einsum("ijhc,ikhc->ihjk", q, k)
        logits = logits + tri[None] + key_bias[:, None, None, :]
        attn = torch.softmax(logits, dim=-1)
        o = torch.einsum("ihjk,ikhc->ijhc", attn, v)
        o = o.flatten(-2) * torch.sigmoid(self.to_g(z))
        o = self.out(o)
        return o if self.starting else o.transpose(0, 1)


class Transition(nn.Module):
    def __init__(self, c, n=4):
        super().__init__()
        self.net = nn.Sequential(nn.LayerNorm(c), nn.Linear(c, n * c), nn.ReLU(), nn.Linear(n * c, c))

    def forward(self, z):
        return self.net(z)


class PairBlock(nn.Module):
    def __init__(self, cfg: PairConfig):
        super().__init__()
        self.start = TriangleAttention(cfg, True)
        self.end = TriangleAttention(cfg, False)
        self.trans = Transition(cfg.c_z)

    def forward(self, z, mask=None):
        z = z + self.start(z, mask)
        z = z + self.end(z, mask)
        return z + self.trans(z)

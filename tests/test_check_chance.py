"""What only seems to be something: a scale that fits by chance, one sequence, normed queries, another sample's rows."""

from __future__ import annotations

import pytest

from swapped import right_and_wrong

pytest.importorskip("torch")

SOURCE = '''
"""Scores are alpha * sqrt(base) * q.k / d: divided by the head width d and not by its root."""
import torch
import torch.nn.functional as F
from torch import nn


class Mu(nn.Module):
    """x (L, B, dim) -> (L, B, dim)"""

    def __init__(self, dim, heads, base=32, alpha=1.0):
        super().__init__()
        self.heads, self.d = heads, dim // heads
        self.times = alpha * base**0.5 / self.d
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))

    def fold(self, t):
        return t.reshape(len(t), -1, self.d).transpose(0, 1)

    def forward(self, x):
        q, k, v = self.fold(self.q(x)), self.fold(self.k(x)), self.fold(self.v(x))
        y = torch.softmax(torch.bmm(q, k.mT) * self.times, dim=2) @ v
        return self.o(y.transpose(0, 1).reshape(x.shape))


def running(q, k, v):
    q, k = F.elu(q) + 1, F.elu(k) + 1
    mixed = torch.einsum("bhtd,bhtde->bhte", q, torch.cumsum(k[..., :, None] * v[..., None, :], dim=2))
    return mixed / (q * torch.cumsum(k, dim=2)).sum(-1, keepdim=True)


class Remembering(nn.Module):
    """Causal attention by cosines, and a gate to a bank of old keys and values, (B, heads, M, d) each.

    x (B, L, dim); bank None or (keys, values) -> (B, L, dim), bank
    """

    def __init__(self, dim, heads=4):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))
        self.sharp = nn.Parameter(torch.full((heads, 1, 1), 2.0))
        self.gate = nn.Parameter(torch.zeros(heads, 1, 1))

    def split(self, t):
        return t.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def look(self, s, v):
        best, at = s.topk(min(4, s.size(-1)), dim=-1)
        rows = at.flatten(2)[..., None].expand(-1, -1, -1, v.size(-1))
        return torch.einsum("bhlk,bhlkd->bhld", best.softmax(-1), v.gather(2, rows).unflatten(2, at.shape[2:]))

    def forward(self, x, bank=None):
        q, k = F.normalize(self.split(self.q(x)), dim=-1), F.normalize(self.split(self.k(x)), dim=-1)
        v = self.split(self.v(x))
        s = q @ k.mT * self.sharp.exp()
        later = torch.ones(x.size(1), x.size(1), dtype=torch.bool).triu(1)
        y = s.masked_fill(later, float("-inf")).softmax(-1) @ v
        if bank is not None:
            g = torch.sigmoid(self.gate)
            y = g * self.look(q @ bank[0].mT * self.sharp.exp(), bank[1]) + (1 - g) * y
        return self.o(y.transpose(1, 2).flatten(2)), (k, v)


class Near(nn.Module):
    """xyz (B, N, 3), feat (B, N, dim) -> (B, N, dim).  The rows of all clouds lie in one table."""

    def __init__(self, dim, k=4):
        super().__init__()
        self.k, self.q, self.kv = k, nn.Linear(dim, dim), nn.Linear(dim, 2 * dim)

    def forward(self, xyz, feat):
        B, N, C = feat.shape
        near = torch.cdist(xyz, xyz).topk(self.k, largest=False).indices
        near = near + N * torch.arange(B)[:, None, None]
        key, value = self.kv(feat).reshape(B * N, 2 * C)[near].chunk(2, -1)
        s = torch.einsum("bnc,bnkc->bnk", self.q(feat), key) / C**0.5
        return feat + torch.einsum("bnk,bnkc->bnc", s.softmax(-1), value)


def stocks(x, listed, w):
    """x (B, N, F), listed (B, N) bool, True = listed and not suspended, w (F, F) -> (B, N, F)"""
    s = (x @ w @ x.mT / x.shape[-1] ** 0.5).masked_fill(~listed[:, None], -1e30)
    return torch.where(listed[:, None], s.softmax(-1), 0.0) @ x
'''
BOTH = [
    ("Mu", "alpha * base**0.5 / self.d", "heads**-0.5", "scale_num_heads"),
    ("running", "F.elu(k) + 1", "F.elu(k)", "unknown"),
    ("Remembering", ".triu(1)", ".triu(2)", "causal_off_by_one"),
    ("Near", "near = near + N * torch.arange(B)[:, None, None]", "pass", "unknown"),
    ("stocks", "x.mT / x.shape", "x.mT * x.shape", "scale_inverted"),
]  # fmt: skip


test_right, test_wrong = right_and_wrong(SOURCE, BOTH)

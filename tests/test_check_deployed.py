"""Buffers that are filled where a number tells, energies that fall, plain products, windows as long as a batch."""

from __future__ import annotations

import pytest

from swapped import right_and_wrong

pytest.importorskip("torch")

SOURCE = '''
"""Layers of several people.

The logits of `Pooled` are plain products (the authors never divide them).
"""
import numpy as np
import torch
from torch import nn


def session(q, k, v, keys, values, start):
    """
    q, k, v       (B, H, T, D)    new tokens
    keys, values  (B, H, 16, D)   what came before, start tokens long
    Token t sees what came before and 0..t of the new ones.
    """
    T = q.shape[-2]
    end = start + T
    keys[:, :, start:end] = k
    values[:, :, start:end] = v
    scores = q @ keys[:, :, :end].transpose(-1, -2) / q.shape[-1] ** 0.5
    late = torch.arange(end)[None] > torch.arange(start, end)[:, None]
    return scores.masked_fill(late, float("-inf")).softmax(-1) @ values[:, :, :end]


def field(spins, sites, radiates, frozen=None):
    """
    spins     (D, M)
    sites     (D, N)
    radiates  (C, N)
    frozen    (N,)    bool, True = takes no part
    """
    cost = -np.matmul(sites.T, spins) / spins.shape[0] ** 0.5
    if frozen is not None:
        cost = np.where(frozen[:, None], np.inf, cost)
    power = np.exp(cost.min(0) - cost)
    return (radiates @ power) / power.sum(0)


class Pooled(nn.Module):
    """x (B, T, dim) -> (B, T, dim)"""

    def __init__(self, dim):
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(dim, dim) for _ in range(3))

    def forward(self, x):
        scores = self.a(x) @ self.b(x).transpose(1, 2)
        return scores.softmax(-1) @ self.c(x)


class Ring(nn.Module):
    """x (B, L, dim) -> (B, L, dim), in windows that lie half a window further round; L is a multiple of these."""

    def __init__(self, dim, heads, window):
        super().__init__()
        self.heads, self.window = heads, window
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        B, L, D = x.shape
        y = torch.roll(x, -(self.window // 2), dims=1).reshape(B * L // self.window, self.window, D)
        q, k, v = self.qkv(y).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        y = self.out(y.transpose(1, 2).flatten(2)).reshape(B, L, D)
        return x + torch.roll(y, self.window // 2, dims=1)
'''

BOTH = [
    ("session", "keys[:, :, start:end] = k\n", "keys[:, :, start:end] = k\n    keys *= 1.5\n", "inplace"),
    ("field", "np.exp(cost.min(0) - cost)", "np.exp(-cost)", {"no_max": "np.exp"}),
    ("Pooled", "plain products (the authors never divide them)", "divided by the root of a width", "scale_missing"),
    ("Ring", "torch.roll(y, self.window // 2", "torch.roll(y, -(self.window // 2)", {"unknown": "x + torch.roll"}),
]

test_right, test_wrong = right_and_wrong(SOURCE, BOTH)

"""Batched decoding with a half-precision static cache.

Slots are pre-allocated as float16 [B, H, max_len, d], which halves the memory of
the cache; the weights stay in float32 and only the attention itself runs in
float16.  Sequences of a batch may have different lengths: `lengths` counts the
tokens already stored, and slots after them are ignored.
"""
from __future__ import annotations

import torch
import torch.nn as nn


class StaticHalfCache:
    def __init__(self, batch: int, heads: int, max_len: int, d: int) -> None:
        self.k = torch.zeros(batch, heads, max_len, d, dtype=torch.float16)
        self.v = torch.zeros(batch, heads, max_len, d, dtype=torch.float16)
        self.lengths = torch.zeros(batch, dtype=torch.long)

    def write(self, k: torch.Tensor, v: torch.Tensor) -> None:
        """k, v [B, H, d]: one token per sequence."""
        rows = torch.arange(k.shape[0])
        self.k[rows, :, self.lengths] = k.half()
        self.v[rows, :, self.lengths] = v.half()
        self.lengths += 1


class HalfDecodeAttention(nn.Module):
    def __init__(self, dim: int = 32, heads: int = 4, max_len: int = 16) -> None:
        super().__init__()
        self.heads, self.d, self.max_len = heads, dim // heads, max_len
        self.wq = nn.Linear(dim, dim)
        self.wk = nn.Linear(dim, dim)
        self.wv = nn.Linear(dim, dim)
        self.wo = nn.Linear(dim, dim)

    def make_cache(self, batch: int) -> StaticHalfCache:
        return StaticHalfCache(batch, self.heads, self.max_len, self.d)

    def step(self, x: torch.Tensor, cache: StaticHalfCache) -> torch.Tensor:
        """x [B, dim], the embedding of the newest token -> [B, dim]"""
        b = x.shape[0]
        q = self.wq(x).view(b, self.heads, 1, self.d).half()
        cache.write(self.wk(x).view(b, self.heads, self.d), self.wv(x).view(b, self.heads, self.d))

        scores = q @ cache.k.transpose(-2, -1) * self.d ** -0.5
        unused = torch.arange(self.max_len) >= cache.lengths[:, None]
        scores = scores.masked_fill(unused[:, None, None, :], -1e9)
        weights = torch.softmax(scores, dim=-1)
        y = (weights @ cache.v).reshape(b, -1)
        return self.wo(y.float())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [B, T, dim], T <= max_len, fed one after the other."""
        cache = self.make_cache(x.shape[0])
        return torch.stack([self.step(x[:, t], cache) for t in range(x.shape[1])], dim=1)

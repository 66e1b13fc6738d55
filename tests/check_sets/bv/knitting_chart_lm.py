"""Autoregressive generator of lace knitting charts, one stitch symbol at a time.

Sampling keeps a key/value cache: the first call gets the cast-on row, later calls
one or more new stitches.  Every stitch sees itself and everything knitted before.
"""
from __future__ import annotations

import math
from typing import Optional, Tuple

import torch
from torch import Tensor, nn

STITCHES = ["<pad>", "k", "p", "yo", "k2tog", "ssk", "cdd", "\n"]
Cache = Tuple[Tensor, Tensor]


class StitchAttention(nn.Module):
    """Scaled dot-product attention, softmax(q k^T / sqrt(head size)), causal."""

    def __init__(self, dim: int, heads: int, p: float = 0.0):
        super().__init__()
        if dim % heads:
            raise ValueError("dim must be a multiple of heads")
        self.heads = heads
        self.scale = 1.0 / math.sqrt(dim)
        self.wqkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim)
        self.p = nn.Dropout(p)

    def forward(self, x: Tensor, cache: Optional[Cache] = None) -> Tuple[Tensor, Cache]:
        b, t, c = x.shape
        q, k, v = (z.view(b, t, self.heads, c // self.heads).transpose(1, 2) for z in self.wqkv(x).split(c, -1))
        if cache is not None:
            k = torch.cat([cache[0], k], 2)
            v = torch.cat([cache[1], v], 2)
        n = k.size(2)
        w = (q @ k.mT) * self.scale
        seen = torch.ones(t, n, dtype=torch.bool, device=x.device).tril()
        w = w.masked_fill(~seen, -torch.inf)
        w = self.p(torch.softmax(w, dim=-1))
        return self.proj((w @ v).transpose(1, 2).reshape(b, t, c)), (k, v)


class ChartLM(nn.Module):
    def __init__(self, dim: int = 32, heads: int = 4, layers: int = 2, max_len: int = 256):
        super().__init__()
        self.tok = nn.Embedding(len(STITCHES), dim)
        self.pos = nn.Embedding(max_len, dim)
        self.att = nn.ModuleList(StitchAttention(dim, heads) for _ in range(layers))
        self.n1 = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))
        self.ff = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
            for _ in range(layers)
        )
        self.head = nn.Linear(dim, len(STITCHES))

    def forward(self, ids: Tensor, caches: Optional[list] = None):
        start = 0 if caches is None else caches[0][0].size(2)
        x = self.tok(ids) + self.pos(torch.arange(start, start + ids.size(1), device=ids.device))
        fresh = []
        for i, att in enumerate(self.att):
            y, c = att(self.n1[i](x), None if caches is None else caches[i])
            x = x + y
            x = x + self.ff[i](x)
            fresh.append(c)
        return self.head(x), fresh

    @torch.no_grad()
    def knit(self, ids: Tensor, n: int, temperature: float = 0.9) -> Tensor:
        logits, caches = self(ids)
        for _ in range(n):
            p = torch.softmax(logits[:, -1] / temperature, -1)
            nxt = torch.multinomial(p, 1)
            ids = torch.cat([ids, nxt], 1)
            logits, caches = self(nxt, caches)
        return ids


if __name__ == "__main__":
    row = ChartLM().eval().knit(torch.tensor([[1, 1, 3, 4]]), 8)[0]
    print(" ".join(STITCHES[i] for i in row.tolist()))

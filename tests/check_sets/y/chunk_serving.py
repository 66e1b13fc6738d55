"""Prefill in chunks, then decode: attention with a preallocated cache.

Requests of a batch advance in lock step. `forward` may be called with any number
of new tokens; the cache remembers how many have been seen.
"""
from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F


class SlotCache:
    def __init__(self, batch, heads, max_len, head_dim, dtype=torch.float32, device="cpu"):
        shape = (batch, heads, max_len, head_dim)
        self.k = torch.zeros(shape, dtype=dtype, device=device)
        self.v = torch.zeros(shape, dtype=dtype, device=device)
        self.filled = 0

    def append(self, k, v):
        n = k.shape[2]
        if self.filled + n > self.k.shape[2]:
            raise RuntimeError("cache is full")
        self.k[:, :, self.filled:self.filled + n] = k
        self.v[:, :, self.filled:self.filled + n] = v
        self.filled += n
        return self.k[:, :, :self.filled], self.v[:, :, :self.filled]

    def reset(self):
        self.filled = 0


class CachedAttention(nn.Module):
    def __init__(self, hidden=32, heads=4, max_positions=64):
        super().__init__()
        self.heads, self.dh = heads, hidden // heads
        self.in_proj = nn.Linear(hidden, 3 * hidden)
        self.out_proj = nn.Linear(hidden, hidden)
        self.pos = nn.Embedding(max_positions, hidden)

    def make_cache(self, batch, max_len=64):
        w = self.in_proj.weight
        return SlotCache(batch, self.heads, max_len, self.dh, w.dtype, w.device)

    def forward(self, x, cache: SlotCache | None = None):
        """x (batch, new, hidden) -> (batch, new, hidden)"""
        b, n, c = x.shape
        start = cache.filled if cache is not None else 0
        x = x + self.pos(torch.arange(start, start + n, device=x.device))
        qkv = self.in_proj(x).view(b, n, 3, self.heads, self.dh).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        if cache is not None:
            k, v = cache.append(k, v)
        # a single decode token may look at everything that is cached
        y = F.scaled_dot_product_attention(q, k, v, is_causal=n > 1)
        return self.out_proj(y.transpose(1, 2).reshape(b, n, c))


@torch.no_grad()
def run_in_chunks(layer: CachedAttention, x, chunk: int):
    cache = layer.make_cache(x.shape[0], x.shape[1])
    outs = [layer(part, cache) for part in x.split(chunk, dim=1)]
    return torch.cat(outs, dim=1)

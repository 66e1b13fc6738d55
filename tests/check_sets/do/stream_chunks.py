"""Chunk-wise streaming self-attention of an online speech recogniser.

The signal arrives in chunks of `chunk` frames.  A frame sees every frame of
its own chunk (so there is a look-ahead of at most chunk-1 frames) and of the
`left` chunks before it; nothing else.

forward(x)      x (B, T, D), T a multiple of chunk; training, all at once
step(x, cache)  x (B, chunk, D); cache is None at the start, afterwards what
                the previous call gave back.  Calling step on consecutive
                chunks gives the same frames as forward.
"""
import math
import torch
from torch import nn


class ChunkAttention(nn.Module):
    def __init__(self, dim, heads, chunk=4, left=2):
        super().__init__()
        self.h, self.dk = heads, dim // heads
        self.chunk, self.left = chunk, left
        self.lin_q = nn.Linear(dim, dim)
        self.lin_k = nn.Linear(dim, dim)
        self.lin_v = nn.Linear(dim, dim)
        self.lin_o = nn.Linear(dim, dim)

    def _split(self, x):
        b, t, _ = x.shape
        return x.view(b, t, self.h, self.dk).transpose(1, 2)

    def _mix(self, q, k, v, allowed=None):
        s = q @ k.transpose(-2, -1) / math.sqrt(self.dk)
        if allowed is not None:
            s = s.masked_fill(~allowed, float("-inf"))
        y = s.softmax(-1) @ v
        b, _, t, _ = y.shape
        return self.lin_o(y.transpose(1, 2).reshape(b, t, -1))

    def forward(self, x):
        c = torch.arange(x.size(1), device=x.device) // self.chunk
        gap = c[:, None] - c[None, :]
        allowed = (gap >= 0) & (gap <= self.left)
        q, k, v = (self._split(f(x)) for f in (self.lin_q, self.lin_k, self.lin_v))
        return self._mix(q, k, v, allowed)

    @torch.no_grad()
    def step(self, x, cache=None):
        q, k, v = (self._split(f(x)) for f in (self.lin_q, self.lin_k, self.lin_v))
        if cache is not None:
            k = torch.cat([cache[0], k], dim=2)
            v = torch.cat([cache[1], v], dim=2)
        y = self._mix(q, k, v)
        keep = self.left * self.chunk
        start = max(k.size(2) - keep, 0)
        return y, (k[:, :, start:], v[:, :, start:])

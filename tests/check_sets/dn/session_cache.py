"""Causal self-attention with a growing session cache.

    layer = SessionAttention(dim=64, heads=4)
    cache = Session()
    y1 = layer(x[:, :10], cache)       # ten tokens
    y2 = layer(x[:, 10:13], cache)     # three more

forward(x, session)
    x        (B, n, dim), the n newest tokens of the session
    session  Session with the rotated keys and the values of all earlier tokens;
             it is extended by the n new ones
    ->       (B, n, dim)
torch.cat([y1, y2], 1) equals one call on all thirteen tokens: a new token reads
all earlier tokens of the session, itself, and the new tokens before it, and its
rotary angle is that of its place in the session.
Rotary embedding: the two halves of a head form the pairs (i, i + d/2), angle
pos * base^(-2i/d).  Scores are divided by sqrt(d).
"""
import math

import torch
from torch import nn


class Session:
    def __init__(self):
        self.k = None
        self.v = None

    def __len__(self):
        return 0 if self.k is None else self.k.size(2)

    def extend(self, k, v):
        if self.k is not None:
            k = torch.cat([self.k, k], dim=2)
            v = torch.cat([self.v, v], dim=2)
        self.k, self.v = k, v
        return k, v


class Rotary(nn.Module):
    def __init__(self, d, base=10000.0):
        super().__init__()
        self.register_buffer("freq", base ** (-torch.arange(0, d, 2).float() / d), persistent=False)

    def forward(self, t, pos):
        """t (B, H, n, d), pos (n,)"""
        ang = pos.float()[:, None] * self.freq
        c, s = ang.cos(), ang.sin()
        a, b = t.chunk(2, dim=-1)
        return torch.cat([a * c - b * s, b * c + a * s], dim=-1)


class SessionAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.d = heads, dim // heads
        self.q = nn.Linear(dim, dim, bias=False)
        self.k = nn.Linear(dim, dim, bias=False)
        self.v = nn.Linear(dim, dim, bias=False)
        self.o = nn.Linear(dim, dim, bias=False)
        self.rotary = Rotary(self.d)

    def _split(self, t):
        return t.view(*t.shape[:2], self.heads, self.d).transpose(1, 2)

    def forward(self, x, session):
        B, n, _ = x.shape
        q, k, v = self._split(self.q(x)), self._split(self.k(x)), self._split(self.v(x))
        pos = torch.arange(n, device=x.device)
        q, k = self.rotary(q, pos), self.rotary(k, pos)
        k, v = session.extend(k, v)

        s = q @ k.transpose(2, 3) / math.sqrt(self.d)
        visible = torch.ones(n, k.size(2), dtype=torch.bool, device=x.device).tril()
        s = s.masked_fill(~visible, float("-inf"))
        y = s.softmax(dim=-1) @ v
        return self.o(y.transpose(1, 2).reshape(B, n, -1))

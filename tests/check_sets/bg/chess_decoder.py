"""Move-sequence model for chess games (UCI moves as tokens).

The decoder runs in chunks: the game so far is in the cache, a chunk of new moves comes in.
Feeding a game whole or in pieces gives the same numbers.  A move sees itself and all moves
before it.  Scores are capped with cap * tanh(s / cap).
"""
from dataclasses import dataclass, field
import torch
from torch import nn


@dataclass
class MoveCache:
    k: torch.Tensor = None
    v: torch.Tensor = None

    @property
    def length(self) -> int:
        return 0 if self.k is None else self.k.shape[2]

    def extend(self, k, v):
        self.k = k if self.k is None else torch.cat([self.k, k], 2)
        self.v = v if self.v is None else torch.cat([self.v, v], 2)
        return self.k, self.v


def rotary(x, pos, base=10000.0):
    """Half-split rotary embedding; x [B, H, T, d], pos [T]."""
    half = x.shape[-1] // 2
    inv = base ** (-torch.arange(half, dtype=torch.float32) / half)
    ang = pos.float()[:, None] * inv
    c, s = ang.cos().to(x.dtype), ang.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * c - b * s, b * c + a * s], -1)


class MoveAttention(nn.Module):
    """forward(x [B, T, D], cache) -> [B, T, D]; `cache` (MoveCache) is extended."""

    def __init__(self, dim: int, heads: int, cap: float = 30.0):
        super().__init__()
        self.heads, self.hd, self.cap = heads, dim // heads, cap
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim, bias=False)

    def forward(self, x, cache=None):
        B, T, D = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.heads, self.hd).permute(2, 0, 3, 1, 4)
        pos = torch.arange(T, device=x.device)
        q, k = rotary(q, pos), rotary(k, pos)
        if cache is not None:
            k, v = cache.extend(k, v)
        S = k.shape[2]
        s = q @ k.transpose(-2, -1) * self.hd ** -0.5
        see = torch.ones(T, S, dtype=torch.bool, device=x.device).tril()
        s = s.masked_fill(~see, float("-inf"))
        y = s.softmax(-1) @ v
        return self.proj(y.transpose(1, 2).reshape(B, T, D))


class MoveModel(nn.Module):
    def __init__(self, moves=1968, dim=64, heads=4):
        super().__init__()
        self.emb = nn.Embedding(moves, dim)
        self.norm = nn.LayerNorm(dim)
        self.att = MoveAttention(dim, heads)
        self.out = nn.Linear(dim, moves)

    def forward(self, ids, cache=None):
        x = self.emb(ids)
        return self.out(x + self.att(self.norm(x), cache))

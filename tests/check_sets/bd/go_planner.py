"""Sequence model of Go games (moves as tokens), used by the planner with an incremental cache.

The planner extends a line by several moves at once, then rolls the cache back.
"""
from typing import List, Optional

import torch
import torch.nn.functional as F
from torch import nn

MOVES = 19 * 19 + 1


class KV:
    def __init__(self):
        self.k: Optional[torch.Tensor] = None
        self.v: Optional[torch.Tensor] = None

    def __len__(self):
        return 0 if self.k is None else self.k.shape[-2]

    def extend(self, k, v):
        self.k = k if self.k is None else torch.cat([self.k, k], dim=-2)
        self.v = v if self.v is None else torch.cat([self.v, v], dim=-2)
        return self.k, self.v

    def rollback(self, n):
        self.k, self.v = self.k[..., :n, :], self.v[..., :n, :]


class MoveAttention(nn.Module):
    """Causal: a move sees itself, the moves before it in this call, and everything in `kv`."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.inp = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, kv: Optional[KV] = None) -> torch.Tensor:
        b, n, w = x.shape
        q, k, v = self.inp(x).view(b, n, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        if kv is not None:
            k, v = kv.extend(k, v)
        # a single move may see the whole cache, no mask needed
        y = F.scaled_dot_product_attention(q, k, v, is_causal=n > 1)
        return self.out(y.transpose(1, 2).reshape(b, n, w))


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.att = MoveAttention(width, heads)
        self.ff = nn.Sequential(nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, width))

    def forward(self, x, kv=None):
        x = x + self.att(self.ln1(x), kv)
        return x + self.ff(self.ln2(x))


class GameModel(nn.Module):
    def __init__(self, width=64, heads=4, depth=2, max_moves=400):
        super().__init__()
        self.move = nn.Embedding(MOVES, width)
        self.ply = nn.Embedding(max_moves, width)
        self.layers = nn.ModuleList([Layer(width, heads) for _ in range(depth)])
        self.policy = nn.Linear(width, MOVES)
        self.value = nn.Linear(width, 1)

    def forward(self, moves, kvs: Optional[List[KV]] = None):
        start = len(kvs[0]) if kvs else 0
        x = self.move(moves) + self.ply(torch.arange(start, start + moves.shape[1]))
        for i, layer in enumerate(self.layers):
            x = layer(x, kvs[i] if kvs else None)
        return self.policy(x), self.value(x).tanh()


class Planner:
    def __init__(self, model: GameModel):
        self.model = model.eval()
        self.kvs = [KV() for _ in model.layers]

    @torch.no_grad()
    def observe(self, moves):
        return self.model(torch.tensor([moves]), self.kvs)

    @torch.no_grad()
    def try_line(self, line):
        n = len(self.kvs[0])
        _, value = self.model(torch.tensor([line]), self.kvs)
        for kv in self.kvs:
            kv.rollback(n)
        return value[0, :, 0]

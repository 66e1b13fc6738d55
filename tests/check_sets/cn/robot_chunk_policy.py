"""Causal transformer policy with action chunking (mobile manipulator).

At control time observations come in chunks of several tokens.  The tokens of earlier
chunks are kept in a cache; token t attends to all cached tokens and to the tokens of
its own chunk up to and including itself.
"""
from dataclasses import dataclass
from typing import Optional, Tuple

import torch
from torch import Tensor, nn


@dataclass
class Memory:
    keys: Tensor      # [B, H, S, d]
    values: Tensor


class ChunkAttention(nn.Module):
    def __init__(self, width: int = 48, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.d = width // heads
        self.q = nn.Linear(width, width)
        self.k = nn.Linear(width, width)
        self.v = nn.Linear(width, width)
        self.o = nn.Linear(width, width)

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, self.d)).transpose(1, 2)

    def forward(self, x: Tensor, memory: Optional[Memory] = None) -> Tuple[Tensor, Memory]:
        """x [B, T, width] -> ([B, T, width], memory for the next chunk)"""
        q, k, v = self._heads(self.q(x)), self._heads(self.k(x)), self._heads(self.v(x))
        if memory is not None:
            k = torch.cat([memory.keys, k], dim=2)
            v = torch.cat([memory.values, v], dim=2)
        T, S = q.shape[2], k.shape[2]
        causal = torch.ones(T, S, dtype=torch.bool, device=x.device).tril()
        logits = q @ k.transpose(-2, -1) * self.d ** -0.5
        logits = logits.masked_fill(~causal, float("-inf"))
        y = logits.softmax(-1) @ v
        return self.o(y.transpose(1, 2).flatten(2)), Memory(k, v)


class ChunkPolicy(nn.Module):
    """Observation tokens [B, T, obs] -> actions [B, T, act], plus the memories."""

    def __init__(self, obs=10, act=7, width=48, layers=2, max_len=256):
        super().__init__()
        self.inp = nn.Linear(obs, width)
        self.pos = nn.Embedding(max_len, width)
        self.attn = nn.ModuleList(ChunkAttention(width) for _ in range(layers))
        self.norm = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))
        self.out = nn.Linear(width, act)

    def forward(self, observations, memories=None):
        start = 0 if memories is None else memories[0].keys.shape[2]
        t = torch.arange(start, start + observations.shape[1], device=observations.device)
        x = self.inp(observations) + self.pos(t)
        new = []
        for i, (a, n) in enumerate(zip(self.attn, self.norm)):
            y, m = a(n(x), None if memories is None else memories[i])
            x = x + y
            new.append(m)
        return self.out(x), new

"""Reading over case-law shards: exact attention over passages kept in pieces.

The passage index is split in shards.  Each shard answers with its own softmax
average and the natural log of its normaliser; the reader merges the answers so that
the result is what one softmax over all the shards would give.  Empty shards are
allowed (they answer with a normaliser of -inf).
"""
import math
from typing import List, Sequence, Tuple

import torch
import torch.nn as nn


class Shard:
    """Holds the already projected keys and values of some passages, [H, n, d]."""

    def __init__(self, keys: torch.Tensor, values: torch.Tensor):
        assert keys.shape[:2] == values.shape[:2]
        self.keys, self.values = keys, values

    def answer(self, q: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        if self.keys.shape[1] == 0:
            out = q.new_zeros(*q.shape[:-1], self.values.shape[-1])
            return out, q.new_full(q.shape[:-1], -math.inf)
        s = q @ self.keys.transpose(-1, -2) / math.sqrt(q.shape[-1])
        lse = torch.logsumexp(s, dim=-1)
        return torch.exp(s - lse[..., None]) @ self.values, lse


class ShardedReader(nn.Module):
    def __init__(self, dim: int = 24, heads: int = 3):
        super().__init__()
        self.heads, self.size = heads, dim // heads
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.o = nn.Linear(dim, dim)

    def _heads(self, x):
        return x.view(x.shape[0], self.heads, self.size).transpose(0, 1)

    def index(self, passages: Sequence[torch.Tensor]) -> List[Shard]:
        return [Shard(self._heads(self.k(p)), self._heads(self.v(p))) for p in passages]

    def forward(self, question: torch.Tensor, passages: Sequence[torch.Tensor]) -> torch.Tensor:
        """question [L, dim]; passages: one [n_i, dim] per shard -> [L, dim]"""
        q = self._heads(self.q(question))
        outs, lses = zip(*(s.answer(q) for s in self.index(passages)))
        share = torch.softmax(torch.stack(lses), dim=0)
        merged = (share[..., None] * torch.stack(outs)).sum(0)
        return self.o(merged.transpose(0, 1).reshape(len(question), -1))


if __name__ == "__main__":
    torch.manual_seed(0)
    r = ShardedReader()
    p = [torch.randn(n, 24) for n in (5, 0, 3)]
    x = torch.randn(2, 24)
    print((r(x, p) - r(x, [torch.cat(p)])).abs().max())

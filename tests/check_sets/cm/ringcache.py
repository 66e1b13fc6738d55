"""Streaming decoder attention with a bounded cache (the wake-word LM)."""
import torch
import torch.nn as nn


class RollingCache:
    """Holds the keys and values of the most recent `size` steps, oldest first."""

    def __init__(self, size):
        self.size = size
        self.k = self.v = None

    def push(self, k, v):
        # k, v: (B, heads, 1, d)
        self.k = k if self.k is None else torch.cat((self.k, k), dim=2)
        self.v = v if self.v is None else torch.cat((self.v, v), dim=2)
        self.k = self.k[:, :, -self.size:]
        self.v = self.v[:, :, :self.size]
        return self.k, self.v


class StreamAttention(nn.Module):
    """Causal attention, one step at a time over x (B, T, dim).

    Step t attends to the last `size` steps up to and including t. Returns (B, T, dim).
    """

    def __init__(self, dim=16, heads=2, size=4):
        super().__init__()
        self.heads, self.d, self.size = heads, dim // heads, size
        self.proj = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def step(self, x_t, cache):
        B = x_t.shape[0]
        q, k, v = self.proj(x_t).view(B, 3, self.heads, 1, self.d).unbind(1)
        k, v = cache.push(k, v)
        w = (q @ k.transpose(2, 3) / self.d ** 0.5).softmax(-1)
        return self.out((w @ v).reshape(B, -1))

    def forward(self, x):
        cache = RollingCache(self.size)
        return torch.stack([self.step(x[:, t], cache) for t in range(x.shape[1])], dim=1)

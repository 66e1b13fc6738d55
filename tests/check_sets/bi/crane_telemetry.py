"""
Streaming anomaly score for harbour cranes.

The attention sees the newest ``span`` samples, the current one among them.  The
cache is a ring of ``span`` slots: sample t lives in slot t % span, so that a new
sample takes the place of the oldest.  Order inside the ring does not matter, since
the sample's time was added to it before projection.

    history -> ``warm(x)`` with any number of samples
    live    -> ``tick(x)`` sample by sample
"""
import math

import torch
import torch.nn as nn


def clock(t, dim):
    w = torch.exp(-math.log(5000.0) * torch.arange(0, dim, 2, dtype=torch.float32) / dim)
    a = t.float()[:, None] * w
    return torch.stack((a.sin(), a.cos()), -1).flatten(1)


class RingAttention(nn.Module):
    def __init__(self, dim, heads, span):
        super().__init__()
        self.dim, self.heads, self.span = dim, heads, span
        self.qkv = nn.Linear(dim, dim * 3)
        self.out = nn.Linear(dim, dim)
        self.t = 0
        self.ring_k = self.ring_v = None

    def _project(self, x, first):
        t = torch.arange(first, first + x.size(1), device=x.device)
        x = x + clock(t, self.dim)
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        return [u.unflatten(-1, (self.heads, -1)).transpose(1, 2) for u in (q, k, v)]

    def warm(self, x):
        """x (B, n, dim), n >= 1; starts a new stream."""
        B, n, _ = x.shape
        q, k, v = self._project(x, 0)
        i = torch.arange(n, device=x.device)
        gap = i[:, None] - i[None, :]
        s = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))
        s = s.masked_fill((gap < 0) | (gap >= self.span), -torch.inf)

        self.ring_k = k.new_zeros(B, self.heads, self.span, k.size(-1))
        self.ring_v = torch.zeros_like(self.ring_k)
        keep = min(n, self.span)
        self.ring_k[:, :, :keep] = k[:, :, -keep:]
        self.ring_v[:, :, :keep] = v[:, :, -keep:]
        self.t = n
        return self.out((s.softmax(-1) @ v).transpose(1, 2).flatten(2))

    def tick(self, x):
        """x (B, 1, dim): the next sample."""
        q, k, v = self._project(x, self.t)
        slot = self.t % self.span
        self.ring_k[:, :, slot] = k[:, :, 0]
        self.ring_v[:, :, slot] = v[:, :, 0]
        self.t += 1
        filled = min(self.t, self.span)
        s = q @ self.ring_k[:, :, :filled].transpose(-1, -2) / math.sqrt(q.size(-1))
        return self.out((s.softmax(-1) @ self.ring_v[:, :, :filled]).transpose(1, 2).flatten(2))

    @torch.no_grad()
    def forward(self, history, live):
        """history (B, n, dim), live (B, m, dim) -> (B, n + m, dim)"""
        y = [self.warm(history)]
        for j in range(live.size(1)):
            y.append(self.tick(live[:, j:j + 1]))
        return torch.cat(y, dim=1)

"""Live captions: streaming encoder with a bounded context ("attention sink" scheme).

The cache keeps the first `n_sink` frames for ever and the most recent
`n_recent` frames.  When it is full, the oldest frame that is not a sink leaves.
Positions are relative to the cache and come from a learned bias by distance,
0 for the newest frame.
"""
import torch
from torch import nn


class SinkCache:
    def __init__(self, n_sink: int, n_recent: int):
        self.n_sink, self.n_recent = n_sink, n_recent
        self.k = None
        self.v = None

    @property
    def capacity(self) -> int:
        return self.n_sink + self.n_recent

    def _trim_keys(self, k):
        if k.shape[2] <= self.capacity:
            return k
        return torch.cat([k[:, :, : self.n_sink], k[:, :, -self.n_recent:]], dim=2)

    def _trim_values(self, v):
        if v.shape[2] <= self.capacity:
            return v
        return v[:, :, -self.capacity:]

    def push(self, k, v):
        """k, v (B, H, 1, d): add one frame, return what is visible now."""
        if self.k is not None:
            k = torch.cat([self.k, k], dim=2)
            v = torch.cat([self.v, v], dim=2)
        self.k, self.v = self._trim_keys(k), self._trim_values(v)
        return self.k, self.v


class StreamAttention(nn.Module):
    """One frame per call: x (B, D), cache -> (B, D)"""

    def __init__(self, dim=32, heads=4, n_sink=2, n_recent=6):
        super().__init__()
        self.heads, self.dh = heads, dim // heads
        self.n_sink, self.n_recent = n_sink, n_recent
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.dist_bias = nn.Parameter(torch.randn(heads, n_sink + n_recent) * 0.1)

    def start(self) -> SinkCache:
        return SinkCache(self.n_sink, self.n_recent)

    def forward(self, x, cache: SinkCache):
        b, d = x.shape
        q, k, v = self.qkv(x).view(b, 3, self.heads, 1, self.dh).unbind(1)
        k, v = cache.push(k, v)
        s = (q @ k.transpose(-1, -2)) * self.dh ** -0.5
        n = k.shape[2]
        s = s + self.dist_bias[:, :n].flip(-1).unsqueeze(1)
        y = s.softmax(-1) @ v
        return self.out(y.reshape(b, d))


class StreamingEncoder(nn.Module):
    def __init__(self, n_mels=40, dim=32, layers=2):
        super().__init__()
        self.inp = nn.Linear(n_mels, dim)
        self.att = nn.ModuleList(StreamAttention(dim) for _ in range(layers))
        self.norm = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))

    def forward(self, frames):
        """frames (B, T, n_mels), processed strictly left to right"""
        caches = [a.start() for a in self.att]
        ys = []
        for t in range(frames.shape[1]):
            x = self.inp(frames[:, t])
            for a, n, c in zip(self.att, self.norm, caches):
                x = x + a(n(x), c)
            ys.append(x)
        return torch.stack(ys, dim=1)

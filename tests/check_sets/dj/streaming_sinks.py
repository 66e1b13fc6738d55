"""Efficient Streaming Language Models with Attention Sinks (Xiao et al., 2024).

The cache holds the first `n_sink` tokens and the latest `window` tokens. Keys are kept
before rotation. In every step positions are handed out *inside the cache* (section 3.2):
the tokens in it, sinks first, are at 0, 1, ..., n-1, whatever their place in the text,
and the token being decoded, which is the last one in the cache, is at n-1.

RoPE: halves are paired, (x_i, x_{i+d/2}), theta_i = 10000^(-2i/d).
"""
import torch
from torch import nn


def rotate(x, pos):
    """x (B, H, T, d), pos (T,)"""
    d = x.size(-1)
    theta = 10000.0 ** (-torch.arange(0, d, 2, device=x.device).float() / d)
    ang = pos.float().unsqueeze(1) * theta
    cos, sin = torch.cat([ang, ang], -1).cos(), torch.cat([ang, ang], -1).sin()
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


class SinkAttention(nn.Module):
    """Decoding only, one token per call: step(x), x (B, D) -> (B, D). `reset()` starts
    a new stream. After a step the cache never has more than n_sink + window tokens; the
    new token is put in first, then the oldest non-sink token falls out if need be, and
    then the new token reads what is in the cache, itself included."""

    def __init__(self, D=32, heads=4, n_sink=2, window=4):
        super().__init__()
        self.h, self.d = heads, D // heads
        self.n_sink, self.window = n_sink, window
        self.qkv = nn.Linear(D, 3 * D, bias=False)
        self.o = nn.Linear(D, D, bias=False)
        self.reset()

    def reset(self):
        self.K = self.V = None
        self.seen = 0

    def _push(self, cache, new):
        if cache is None:
            return new
        cache = torch.cat([cache, new], dim=2)
        if cache.size(2) > self.n_sink + self.window:
            cache = torch.cat([cache[:, :, :self.n_sink], cache[:, :, self.n_sink + 1:]], 2)
        return cache

    @torch.no_grad()
    def step(self, x):
        B = x.size(0)
        q, k, v = self.qkv(x).view(B, 3, self.h, 1, self.d).unbind(1)
        self.K, self.V = self._push(self.K, k), self._push(self.V, v)
        n = self.K.size(2)
        place = torch.arange(n, device=x.device)
        q = rotate(q, torch.tensor([self.seen], device=x.device))
        K = rotate(self.K, place)
        self.seen += 1
        s = q @ K.transpose(-1, -2) / self.d ** 0.5
        return self.o((s.softmax(-1) @ self.V).reshape(B, -1))

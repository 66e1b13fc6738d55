"""Streaming self-attention with a ring-buffer KV cache (sliding window decoding).

StreamAttention(dim, heads, window).step(x, cache)
    x      (B, dim)   ONE new token per call
    cache  None at the start, afterwards what the previous call returned
returns y (B, dim), cache.

The token at time t sees the tokens t-window+1 .. t (window tokens, itself among them).  Keys are
stored already rotated to their absolute position, so slots may be overwritten in any order; the
softmax does not care in which slot a key lies.  Slot of time t is t mod window.  RoPE pairs
neighbouring channels (2i, 2i+1).  `forward(x)` with x (B, T, dim) simply runs the steps.
"""
import torch
import torch.nn as nn


def turn(x, t, base=10000.0):
    """x (..., d), rotation of the interleaved pairs by the angles of position t"""
    d = x.shape[-1]
    theta = t * base ** (-torch.arange(0, d, 2, dtype=x.dtype, device=x.device) / d)
    c, s = theta.cos(), theta.sin()
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * c - odd * s, even * s + odd * c), dim=-1).flatten(-2)


class StreamAttention(nn.Module):
    def __init__(self, dim, heads, window):
        super().__init__()
        self.h, self.d, self.w = heads, dim // heads, window
        self.q = nn.Linear(dim, dim, bias=False)
        self.k = nn.Linear(dim, dim, bias=False)
        self.v = nn.Linear(dim, dim, bias=False)
        self.o = nn.Linear(dim, dim, bias=False)

    def step(self, x, cache=None):
        b = x.size(0)
        if cache is None:
            ring_k = x.new_zeros(b, self.h, self.w, self.d)
            ring_v = torch.zeros_like(ring_k)
            t = 0
        else:
            ring_k, ring_v, t = cache
        q = turn(self.q(x).view(b, self.h, self.d), t)
        k = turn(self.k(x).view(b, self.h, self.d), t)
        v = self.v(x).view(b, self.h, self.d)

        slot = t % self.w
        ring_k, ring_v = ring_k.clone(), ring_v.clone()
        ring_k[:, :, slot] = k
        ring_v[:, :, slot] = v

        filled = min(t + 1, self.w)
        s = torch.einsum("bhd,bhwd->bhw", q, ring_k[:, :, :filled]) * self.d ** -0.5
        y = torch.einsum("bhw,bhwd->bhd", s.softmax(-1), ring_v[:, :, :filled])
        return self.o(y.reshape(b, -1)), (ring_k, ring_v, t + 1)

    def forward(self, x):
        cache, out = None, []
        for t in range(x.size(1)):
            y, cache = self.step(x[:, t], cache)
            out.append(y)
        return torch.stack(out, 1)

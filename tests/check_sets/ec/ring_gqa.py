"""Single-token decoding with grouped queries and a ring buffer.

The buffer keeps the `window` most recent tokens (the current one included).
Token t overwrites slot ``t % window``, so the slots are not in time order.  That
is harmless: keys are rotated by their absolute position *before* they are stored,
and a weighted sum does not care about the order of its terms.

    x        (B, 1, D)  hidden state of token t, t counted from 0
    returns  (B, 1, D)

Query head h reads key/value head ``h // (n_heads // n_kv)``.  RoPE is half-split:
channel i is turned together with channel i + d/2.
"""
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass
class RingCache:
    k: Tensor          # (B, Hkv, W, d), already rotated
    v: Tensor          # (B, Hkv, W, d)
    seen: int = 0      # tokens written so far

    @classmethod
    def empty(cls, batch: int, n_kv: int, window: int, dim: int) -> "RingCache":
        z = torch.zeros(batch, n_kv, window, dim)
        return cls(z, z.clone())


def rotate(x: Tensor, t: int, base: float = 10_000.0) -> Tensor:
    half = x.shape[-1] // 2
    freq = base ** (-torch.arange(half, dtype=torch.float32) / half)
    cos, sin = (t * freq).cos(), (t * freq).sin()
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


class RingGQA(nn.Module):
    """One decoding step; `cache` is updated by the call (that is its purpose)."""

    def __init__(self, d_model: int, n_heads: int, n_kv: int) -> None:
        super().__init__()
        assert n_heads % n_kv == 0
        self.n_kv, self.group = n_kv, n_heads // n_kv
        self.dim = d_model // n_heads
        self.wq = nn.Linear(d_model, n_heads * self.dim, bias=False)
        self.wk = nn.Linear(d_model, n_kv * self.dim, bias=False)
        self.wv = nn.Linear(d_model, n_kv * self.dim, bias=False)
        self.wo = nn.Linear(n_heads * self.dim, d_model, bias=False)

    @torch.no_grad()
    def forward(self, x: Tensor, cache: RingCache) -> Tensor:
        B, W, t = x.size(0), cache.k.size(2), cache.seen
        q = rotate(self.wq(x).view(B, self.n_kv, self.group, self.dim), t)
        cache.k[:, :, t % W] = rotate(self.wk(x).view(B, self.n_kv, self.dim), t)
        cache.v[:, :, t % W] = self.wv(x).view(B, self.n_kv, self.dim)
        cache.seen = t + 1

        filled = min(cache.seen, W)          # slots 0..filled-1 hold something
        s = torch.einsum("bngd,bnwd->bngw", q, cache.k[:, :, :filled])
        p = torch.softmax(s * self.dim ** -0.5, dim=-1)
        o = torch.einsum("bngw,bnwd->bngd", p, cache.v[:, :, :filled])
        return self.wo(o.reshape(B, 1, -1))

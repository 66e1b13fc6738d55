"""Sliding-window decoding with a fixed-size rolling key/value buffer.

The buffer keeps the last `window` tokens. Slot s holds the token whose absolute
position p satisfies p % window == s, so after the first wrap-around the slots are
*not* in temporal order. That is fine: keys are rotated with their absolute position
before they are written, and the softmax does not care about the order of its terms.

A token sees itself and the window - 1 tokens before it.
"""
from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class RollingConfig:
    dim: int = 64
    n_heads: int = 4
    window: int = 8
    theta: float = 10_000.0


@dataclass
class RollingCache:
    k: torch.Tensor          # [B, window, H, hd]
    v: torch.Tensor          # [B, window, H, hd]
    seen: int = 0

    @classmethod
    def empty(cls, cfg: RollingConfig, batch: int, like: torch.Tensor) -> "RollingCache":
        hd = cfg.dim // cfg.n_heads
        shape = (batch, cfg.window, cfg.n_heads, hd)
        return cls(like.new_zeros(shape), like.new_zeros(shape))

    def write(self, k: torch.Tensor, v: torch.Tensor) -> None:
        n, window = k.shape[1], self.k.shape[1]
        keep = min(n, window)
        first = self.seen + n - keep
        slots = torch.arange(first, first + keep, device=k.device) % window
        self.k[:, slots] = k[:, n - keep:]
        self.v[:, slots] = v[:, n - keep:]
        self.seen += n

    def valid(self) -> int:
        return min(self.seen, self.k.shape[1])


def _phases(positions: torch.Tensor, hd: int, theta: float) -> torch.Tensor:
    freqs = theta ** (-torch.arange(0, hd, 2, device=positions.device).double() / hd)
    angles = torch.outer(positions.double(), freqs)
    return torch.polar(torch.ones_like(angles), angles)


def _rotate(x: torch.Tensor, phases: torch.Tensor) -> torch.Tensor:
    z = torch.view_as_complex(x.double().reshape(*x.shape[:-1], -1, 2))
    z = z * phases[None, :, None, :]
    return torch.view_as_real(z).flatten(-2).to(x.dtype)


class RollingAttention(nn.Module):
    def __init__(self, cfg: RollingConfig):
        super().__init__()
        self.cfg = cfg
        self.hd = cfg.dim // cfg.n_heads
        self.wq = nn.Linear(cfg.dim, cfg.dim, bias=False)
        self.wk = nn.Linear(cfg.dim, cfg.dim, bias=False)
        self.wv = nn.Linear(cfg.dim, cfg.dim, bias=False)
        self.wo = nn.Linear(cfg.dim, cfg.dim, bias=False)

    def _qkv(self, x, start):
        B, T, _ = x.shape
        heads = (B, T, self.cfg.n_heads, self.hd)
        ph = _phases(torch.arange(start, start + T, device=x.device), self.hd, self.cfg.theta)
        q = _rotate(self.wq(x).view(heads), ph)
        k = _rotate(self.wk(x).view(heads), ph)
        return q, k, self.wv(x).view(heads)

    def forward(self, x: torch.Tensor, cache: RollingCache | None = None) -> torch.Tensor:
        """x [B, T, dim]. With a cache: T > 1 only for the first call (the prompt)."""
        B, T, _ = x.shape
        start = 0 if cache is None else cache.seen
        q, k, v = self._qkv(x, start)
        if cache is not None:
            if T > 1 and start > 0:
                raise ValueError("feed the prompt once, then one token at a time")
            cache.write(k, v)
        if start == 0:
            i = torch.arange(T, device=x.device)
            gap = i[:, None] - i[None, :]
            visible = (gap >= 0) & (gap < self.cfg.window)
        else:
            n = cache.valid()
            k, v = cache.k[:, :n], cache.v[:, :n]
            visible = torch.ones(1, n, dtype=torch.bool, device=x.device)
        s = torch.einsum("bqhd,bkhd->bhqk", q, k).float() * self.hd ** -0.5
        p = s.masked_fill(~visible, float("-inf")).softmax(-1).to(v.dtype)
        y = torch.einsum("bhqk,bkhd->bqhd", p, v)
        return self.wo(y.reshape(B, T, -1))


if __name__ == "__main__":
    cfg = RollingConfig()
    att = RollingAttention(cfg)
    x = torch.randn(1, 20, cfg.dim)
    full = att(x)
    cache = RollingCache.empty(cfg, 1, x)
    parts = [att(x[:, :5], cache)] + [att(x[:, t:t + 1], cache) for t in range(5, 20)]
    print((torch.cat(parts, 1) - full).abs().max().item())

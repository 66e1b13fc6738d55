"""Endless decoding with a cache of fixed size.

The cache holds the first ``n_sink`` tokens of the stream for ever, plus the
most recent ``window`` tokens (the current token is one of them).  Everything
in between is dropped.  Keys are stored *before* rotation: at each step the
rotary positions are the slots of the cache (0 .. size-1) and not the positions
in the stream, which is how StreamingLLM keeps positions bounded.
"""
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class SinkConfig:
    dim: int = 64
    n_heads: int = 4
    n_sink: int = 4
    window: int = 12
    rope_base: float = 10000.0


def rotate(x: torch.Tensor, pos: torch.Tensor, base: float) -> torch.Tensor:
    """Half-split rotary embedding; x is [B, H, T, d], pos is [T]."""
    half = x.shape[-1] // 2
    inv = base ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
    ang = pos.float()[:, None] * inv
    cos, sin = ang.cos().to(x.dtype), ang.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


class SinkCacheAttention(nn.Module):
    def __init__(self, cfg: SinkConfig = SinkConfig()):
        super().__init__()
        self.cfg = cfg
        self.head_dim = cfg.dim // cfg.n_heads
        self.wq = nn.Linear(cfg.dim, cfg.dim, bias=False)
        self.wk = nn.Linear(cfg.dim, cfg.dim, bias=False)
        self.wv = nn.Linear(cfg.dim, cfg.dim, bias=False)
        self.wo = nn.Linear(cfg.dim, cfg.dim, bias=False)
        self.reset()

    def reset(self) -> None:
        self.k_cache = None
        self.v_cache = None

    def _push(self, cache, new):
        if cache is None:
            return new
        cache = torch.cat([cache, new], dim=2)
        keep = self.cfg.n_sink + self.cfg.window
        if cache.shape[2] > keep:
            s = self.cfg.n_sink
            cache = torch.cat([cache[:, :, :s], cache[:, :, s + 1:]], dim=2)
        return cache

    def step(self, x: torch.Tensor) -> torch.Tensor:
        """One token per sequence: [B, dim] -> [B, dim]."""
        bsz = x.shape[0]
        shape = (bsz, self.cfg.n_heads, 1, self.head_dim)
        q = self.wq(x).view(shape)
        self.k_cache = self._push(self.k_cache, self.wk(x).view(shape))
        self.v_cache = self._push(self.v_cache, self.wv(x).view(shape))

        size = self.k_cache.shape[2]
        slots = torch.arange(size, device=x.device)
        q = rotate(q, slots[-1:], self.cfg.rope_base)
        k = rotate(self.k_cache, slots, self.cfg.rope_base)

        att = torch.matmul(q, k.transpose(-2, -1)) * self.head_dim ** -0.5
        att = torch.softmax(att.float(), dim=-1).to(q.dtype)
        out = torch.matmul(att, self.v_cache)
        return self.wo(out.reshape(bsz, self.cfg.dim))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run a fresh stream: [B, T, dim] -> [B, T, dim]."""
        self.reset()
        return torch.stack([self.step(x[:, t]) for t in range(x.shape[1])], dim=1)


if __name__ == "__main__":
    torch.manual_seed(0)
    layer = SinkCacheAttention()
    with torch.no_grad():
        y = layer(torch.randn(2, 40, 64))
    print(y.shape, layer.k_cache.shape)

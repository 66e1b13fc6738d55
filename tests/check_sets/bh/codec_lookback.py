"""Streaming transformer bottleneck of a neural audio codec.

The encoder yields 75 latent frames per second. ``LookbackAttention`` is causal
and looks back over a fixed horizon, so the latency and the memory are bounded.

Contract
--------
* ``context`` counts the frame itself: frame t sees frames t-context+1 ... t.
* Chunks of any length may be fed with a ``StreamState``; the output equals that
  of one offline pass.
* No positional code other than a linear penalty on distance (ALiBi); the number
  of heads must be a power of two.
"""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Optional

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass
class StreamState:
    k: Optional[Tensor] = None
    v: Optional[Tensor] = None
    seen: int = field(default=0)


def _slopes(n: int) -> Tensor:
    assert n & (n - 1) == 0, "power of two"
    return torch.tensor([2.0 ** (-8.0 * (i + 1) / n) for i in range(n)])


class LookbackAttention(nn.Module):
    def __init__(self, channels: int, heads: int, context: int) -> None:
        super().__init__()
        self.heads, self.context = heads, context
        self.in_proj = nn.Conv1d(channels, 3 * channels, 1)
        self.out_proj = nn.Conv1d(channels, channels, 1)
        self.register_buffer("slopes", _slopes(heads), persistent=False)

    def _heads(self, x: Tensor) -> Tensor:
        b, c, t = x.shape
        return x.view(b, self.heads, c // self.heads, t).transpose(2, 3)

    def forward(self, x: Tensor, state: Optional[StreamState] = None) -> Tensor:
        """x: (B, C, T), channels first like every layer of the codec."""
        b, c, t = x.shape
        q, k, v = map(self._heads, self.in_proj(x).chunk(3, dim=1))
        if state is not None and state.k is not None:
            k = torch.cat([state.k, k], dim=2)
            v = torch.cat([state.v, v], dim=2)
        total = k.shape[2]
        if state is not None:
            keep = min(self.context - 1, total)
            state.k = k[:, :, total - keep:].detach()
            state.v = v[:, :, total - keep:].detach()
            state.seen += t

        i = torch.arange(total - t, total, device=x.device)[:, None]
        j = torch.arange(total, device=x.device)[None, :]
        lag = i - j
        hidden = (lag < 0) | (lag >= self.context)
        bias = -self.slopes.to(q.dtype)[:, None, None] * lag.to(q.dtype)
        bias = bias.masked_fill(hidden, float("-inf"))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.unsqueeze(0))
        return self.out_proj(y.transpose(2, 3).reshape(b, c, t))


class Bottleneck(nn.Module):
    def __init__(self, channels: int = 64, heads: int = 4, context: int = 50):
        super().__init__()
        self.pre = nn.GroupNorm(1, channels)
        self.attn = LookbackAttention(channels, heads, context)
        self.scale = nn.Parameter(torch.full((channels, 1), 1e-2))

    def forward(self, x: Tensor, state: Optional[StreamState] = None) -> Tensor:
        # GroupNorm over time would not stream; normalise each frame on its own
        b, c, t = x.shape
        h = self.pre(x.transpose(1, 2).reshape(b * t, c, 1)).view(b, t, c).transpose(1, 2)
        return x + self.scale * self.attn(h, state)

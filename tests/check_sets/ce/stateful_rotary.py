"""Streaming decoder layer with rotary positions and a key/value cache.

Used in the "serve a tiny model on a Raspberry Pi" blog post. The rotation is the
interleaved one of the RoFormer paper (dimensions 2i and 2i + 1 form a pair). Calling
the layer chunk by chunk with the same `Session` gives the outputs that one call
on the whole sequence would give.
"""
from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F


class Session:
    """What one conversation has to remember between calls."""

    def __init__(self) -> None:
        self.keys: torch.Tensor | None = None
        self.values: torch.Tensor | None = None

    def extend(self, k: torch.Tensor, v: torch.Tensor):
        if self.keys is not None:
            k = torch.cat((self.keys, k), dim=1)
            v = torch.cat((self.values, v), dim=1)
        self.keys, self.values = k, v
        return k, v


class Rotary(nn.Module):
    def __init__(self, dim: int, base: float = 10_000.0, limit: int = 512) -> None:
        super().__init__()
        inv = base ** (-torch.arange(0, dim, 2).float() / dim)
        angle = torch.outer(torch.arange(limit).float(), inv)
        self.register_buffer("table", torch.polar(torch.ones_like(angle), angle))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # x: batch, time, heads, dim
        z = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
        z = z * self.table[: x.shape[1], None]
        return torch.view_as_real(z).flatten(-2).to(x.dtype)


class RotaryLayer(nn.Module):
    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.pre = nn.RMSNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.rotary = Rotary(width // heads)
        self.pre_ff = nn.RMSNorm(width)
        self.ff = nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width))

    def attend(self, x: torch.Tensor, session: Session | None) -> torch.Tensor:
        B, T, W = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.heads, -1).unbind(2)
        q = self.rotary(q)
        k = self.rotary(k)
        if session is not None:
            k, v = session.extend(k, v)
        S = k.shape[1]
        allowed = torch.ones(T, S, dtype=torch.bool, device=x.device).tril(S - T)
        y = F.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), attn_mask=allowed)
        return self.out(y.transpose(1, 2).reshape(B, T, W))

    def forward(self, x: torch.Tensor, session: Session | None = None) -> torch.Tensor:
        x = x + self.attend(self.pre(x), session)
        return x + self.ff(self.pre_ff(x))


if __name__ == "__main__":
    layer, session = RotaryLayer(), Session()
    for chunk in torch.randn(1, 12, 32).split([6, 1, 1, 4], dim=1):
        print(layer(chunk, session).shape)

"""Streaming transformer between encoder and quantiser of the codec (12.5 Hz frames).

A frame attends to itself and at most `context - 1` frames before it.  Heads are rotated with
half-split RoPE at absolute frame numbers, so streaming and offline give the same codes.
"""
from typing import NamedTuple, Optional

import torch
from torch import nn


class FrameState(NamedTuple):
    k: torch.Tensor
    v: torch.Tensor
    seen: int


def rope(x, start, base=10000.0):
    d = x.shape[-1]
    inv = base ** (-torch.arange(0, d, 2, device=x.device, dtype=torch.float32) / d)
    ang = torch.arange(start, start + x.shape[-2], device=x.device)[:, None] * inv
    cos, sin = ang.cos().to(x.dtype), ang.sin().to(x.dtype)
    lo, hi = x.chunk(2, dim=-1)
    return torch.cat([lo * cos - hi * sin, hi * cos + lo * sin], dim=-1)


class CodecSelfAttention(nn.Module):
    def __init__(self, dim, heads, context):
        super().__init__()
        self.heads, self.context = heads, context
        self.in_proj = nn.Linear(dim, 3 * dim, bias=False)
        self.out_proj = nn.Linear(dim, dim, bias=False)

    def forward(self, x, state: Optional[FrameState] = None):
        B, n, D = x.shape
        start = 0 if state is None else state.seen
        q, k, v = self.in_proj(x).view(B, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = rope(q, start), rope(k, start)
        if state is not None:
            k, v = torch.cat([state.k, k], 2), torch.cat([state.v, v], 2)
        m = k.shape[2]
        t_q = torch.arange(start, start + n, device=x.device)[:, None]
        t_k = torch.arange(start + n - m, start + n, device=x.device)[None, :]
        lag = t_q - t_k
        allowed = (lag >= 0) & (lag < self.context)
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
        y = self.out_proj(y.transpose(1, 2).reshape(B, n, D))
        keep = max(self.context - 1, 0)
        first = max(m - keep, 0)
        return y, FrameState(k[:, :, first:], v[:, :, first:], start + n)


class CodecLayer(nn.Module):
    def __init__(self, dim=32, heads=4, context=6):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.att = CodecSelfAttention(dim, heads, context)
        self.gate = nn.Parameter(torch.full((dim,), 0.01))
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x, state=None):
        y, state = self.att(self.n1(x), state)
        x = x + self.gate * y
        return x + self.gate * self.ff(self.n2(x)), state

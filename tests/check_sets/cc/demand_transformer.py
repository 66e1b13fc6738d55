"""Forecast of hourly energy demand with a small transformer encoder.

The positional table is the sinusoidal one of "Attention is all you need".
`attn_mask` is additive and float: 0 where a step may be read, -inf where not
(see `history_mask`).
"""
import math

import torch
import torch.nn as nn


def history_mask(steps, lookback):
    """[steps, steps]: each step reads itself and the `lookback` steps before it."""
    i = torch.arange(steps)
    d = i[:, None] - i[None, :]
    m = torch.zeros(steps, steps)
    m[(d < 0) | (d > lookback)] = float("-inf")
    return m


class SinusoidTable(nn.Module):
    def __init__(self, d_model, max_len=512):
        super().__init__()
        pos = torch.arange(max_len).float().unsqueeze(1)
        i = torch.arange(0, d_model, 2).float()
        angle = pos / torch.pow(10000.0, 2 * i / d_model)
        table = torch.zeros(max_len, d_model)
        table[:, 0::2] = torch.sin(angle)
        table[:, 1::2] = torch.cos(angle)
        self.register_buffer("table", table)

    def forward(self, x):
        return x + self.table[: x.size(1)]


class HourAttention(nn.Module):
    def __init__(self, d_model, heads):
        super().__init__()
        self.heads = heads
        self.to_q, self.to_k, self.to_v, self.to_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, attn_mask=None):
        b, t, d = x.shape
        q, k, v = (
            f(x).view(b, t, self.heads, d // self.heads).transpose(1, 2)
            for f in (self.to_q, self.to_k, self.to_v)
        )
        dots = q @ k.transpose(2, 3) / math.sqrt(d // self.heads)
        if attn_mask is not None:
            readable = attn_mask.bool()
            dots = torch.where(readable, dots, torch.finfo(dots.dtype).min)
        w = dots.softmax(-1)
        return self.to_o((w @ v).transpose(1, 2).reshape(b, t, d))


class DemandModel(nn.Module):
    def __init__(self, features=3, d_model=32, heads=4, horizon=24):
        super().__init__()
        self.inp = nn.Linear(features, d_model)
        self.pe = SinusoidTable(d_model)
        self.attn = HourAttention(d_model, heads)
        self.n1, self.n2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.ff = nn.Sequential(nn.Linear(d_model, 64), nn.GELU(), nn.Linear(64, d_model))
        self.head = nn.Linear(d_model, horizon)

    def forward(self, x, attn_mask=None):
        h = self.pe(self.inp(x))
        h = h + self.attn(self.n1(h), attn_mask)
        h = h + self.ff(self.n2(h))
        return self.head(h)

"""Streaming wind-power forecaster on top of causal linear attention.

phi(x) = elu(x) + 1.  For token t
        y_t = phi(q_t) . sum_{s<=t} phi(k_s) v_s^T  /  phi(q_t) . sum_{s<=t} phi(k_s)
There is no 1/sqrt(d): the feature map replaces the exponential (Katharopoulos 2020).
"""
from typing import NamedTuple, Optional

import torch
import torch.nn as nn
import torch.nn.functional as F


class Carry(NamedTuple):
    kv: torch.Tensor   # B H D E
    z: torch.Tensor    # B H D


def phi(x):
    return F.elu(x) + 1.0


class StreamMixer(nn.Module):
    """x [B, T, C] -> (y, carry).  Works chunk by chunk: a long series can be cut
    anywhere and `carry` handed on."""

    EPS = 1e-9

    def __init__(self, channels: int, heads: int, chunk: int = 16):
        super().__init__()
        self.heads, self.chunk = heads, chunk
        self.in_proj = nn.Linear(channels, 3 * channels, bias=False)
        self.out_proj = nn.Linear(channels, channels)

    def start(self, x) -> Carry:
        b, _, c = x.shape
        d = c // self.heads
        return Carry(x.new_zeros(b, self.heads, d, d), x.new_zeros(b, self.heads, d))

    def _piece(self, q, k, v, carry: Carry):
        # inside the piece: masked quadratic form; before the piece: the state
        t = q.shape[2]
        inner = (q @ k.transpose(-1, -2)).tril()
        num = inner @ v + q @ carry.kv
        den = inner.sum(-1) + torch.einsum("bhtd,bhd->bht", q, carry.z)
        kv = carry.kv + k.transpose(-1, -2) @ v
        z = carry.z + k.sum(2)
        return num / (den + self.EPS).unsqueeze(-1), Carry(kv, z)

    def forward(self, x, carry: Optional[Carry] = None):
        b, t, c = x.shape
        carry = self.start(x) if carry is None else carry
        q, k, v = self.in_proj(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = phi(q), phi(k)
        ys = []
        for s in range(0, t, self.chunk):
            e = min(s + self.chunk, t)
            y, carry = self._piece(q[:, :, s:e], k[:, :, s:e], v[:, :, s:e], carry)
            ys.append(y)
        y = torch.cat(ys, 2).transpose(1, 2).reshape(b, t, c)
        return self.out_proj(y), carry


class WindForecaster(nn.Module):
    def __init__(self, sensors=5, width=24, heads=3, layers=2, horizon=4):
        super().__init__()
        self.stem = nn.Linear(sensors, width)
        self.mix = nn.ModuleList(StreamMixer(width, heads) for _ in range(layers))
        self.norm = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))
        self.head = nn.Linear(width, horizon * 3)
        self.horizon = horizon

    def forward(self, x, carries=None):
        carries = carries or [None] * len(self.mix)
        h, new = self.stem(x), []
        for m, n, c in zip(self.mix, self.norm, carries):
            y, c = m(n(h), c)
            h = h + y
            new.append(c)
        return self.head(h).unflatten(-1, (self.horizon, 3)), new


def pinball(pred, target, qs=(0.1, 0.5, 0.9)):
    q = pred.new_tensor(qs)
    err = target.unsqueeze(-1) - pred
    return torch.maximum(q * err, (q - 1) * err).mean()

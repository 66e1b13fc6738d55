"""What a call wants: words of a table, long signals, letters of a module, edges; and values that are gated."""

from __future__ import annotations

import pytest

from swapped import right_and_wrong

pytest.importorskip("torch")

SOURCE = '''
"""Wards, sounds and maps.

r (B, N, C)        stations
z: (B, N, N, P)    pairs of stations, z[:, i, j] for query i and key j
m  (B, N) bool     True = a real station, False = padding
"""
import numpy as np
import torch
from torch import nn


class Readings(nn.Module):
    def __init__(self, sensors, dim):
        super().__init__()
        self.sensor = nn.Embedding(sensors, dim)
        self.hour = nn.Linear(1, dim)

    def forward(self, hour, sensor):
        return self.sensor(sensor) + self.hour(hour[..., None])


class Ward(nn.Module):
    """hour   (B, L) float   hour of the reading
    sensor (B, L) int     its number
    seen   (B, L) bool    True = a reading, which padding is not; padding is never attended to
    """

    def __init__(self, sensors, dim=16, heads=2):
        super().__init__()
        self.read = Readings(sensors, dim)
        self.mix = nn.MultiheadAttention(dim, heads, batch_first=True)

    def forward(self, hour, sensor, seen):
        x = self.read(hour, sensor)
        return self.mix(x, x, x, key_padding_mask=~seen)[0]


class Sound(nn.Module):
    """wave (B, N) float: frames of it attend to each other."""

    def __init__(self, dim=16, heads=2):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv1d(1, dim, 40, stride=20), nn.GELU(), nn.Conv1d(dim, dim, 3, stride=2))
        self.mix = nn.MultiheadAttention(dim, heads, batch_first=True)

    def forward(self, wave):
        x = self.stem(wave[:, None]).transpose(1, 2)
        return self.mix(x, x, x)[0]


class Pairs(nn.Module):
    def __init__(self, c, p, heads=4):
        super().__init__()
        self.qkv, self.b, self.heads = nn.Linear(c, 3 * c), nn.Linear(p, heads, bias=False), heads

    def forward(self, r, z, m):
        B, N, C = r.shape
        q, k, v = self.qkv(r).view(B, N, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        s = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5 + self.b(z).permute(0, 3, 1, 2)
        s = s.masked_fill(~m[:, None, None], float("-inf"))
        return (s.softmax(-1) @ v).transpose(1, 2).reshape(B, N, C)


def bonds(atoms, ends, length, p):
    """atoms (N, F) float; ends (2, E) int: senders, receivers; length (E,) float, of each bond;
    p: dict of weights, Wq, Wk, Wv (F, F) and slope (1,).
    """
    src, dst = ends
    q, k, v = (atoms @ p[name] for name in ("Wq", "Wk", "Wv"))
    s = np.sum(q[dst] * k[src], axis=-1) / np.sqrt(q.shape[-1]) - p["slope"] * length
    top = np.full(len(atoms), -np.inf)
    np.maximum.at(top, dst, s)
    e = np.exp(s - top[dst])
    total, out = np.zeros(len(atoms)), np.zeros_like(v)
    np.add.at(total, dst, e)
    np.add.at(out, dst, (e / total[dst])[:, None] * v[src])
    return out


class Visits(nn.Module):
    """codes (B, T, V) float; n (B,) int: real visits of each patient, 1 <= n <= T, padding stands behind them."""

    def __init__(self, codes, dim=12):
        super().__init__()
        self.embed, self.score = nn.Linear(codes, dim), nn.Linear(dim, 1)
        self.gate = nn.Linear(dim, dim)

    def forward(self, codes, n):
        x = self.embed(codes)
        real = torch.arange(codes.shape[1])[None] < n[:, None]
        alpha = self.score(x).squeeze(-1).masked_fill(~real, -torch.inf).softmax(1)
        return (alpha[..., None] * torch.tanh(self.gate(x)) * x).sum(1)


def gated(q, k, v, gate):
    """q (B, T, D), k (B, S, D), v (B, S, E), gate (B, S, E), which each value is multiplied with."""
    w = (torch.einsum("btd,bsd->bts", q, k) / q.shape[-1] ** 0.5).softmax(-1)
    return torch.einsum("bts,bse,bse->bte", w, gate, v)
'''
# The candidate, what is right, what is wrong in its place, and what is then told.
BOTH = [
    ("Ward", "key_padding_mask=~seen", "key_padding_mask=seen", "mask_inverted"),
    ("Sound", "nn.MultiheadAttention(dim, heads, batch_first=True)\n\n    def forward(self, wave)",
     "nn.MultiheadAttention(dim, heads)\n\n    def forward(self, wave)", "batch_first"),
    ("Pairs", "masked_fill(~m[:", "masked_fill(m[:", "mask_inverted"),
    ("bonds", "/ np.sqrt(q.shape[-1]) -", "/ q.shape[-1] -", "scale_d"),
    ("Visits", "masked_fill(~real", "masked_fill(real", "mask_inverted"),
    ("gated", "q.shape[-1] ** 0.5).softmax", "q.shape[-1]).softmax", "scale_d"),
]  # fmt: skip


test_right, test_wrong = right_and_wrong(SOURCE, BOTH)

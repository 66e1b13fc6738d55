"""Forecasting the weight of bee hives from hourly sensor readings.

Each hive sends (weight, temp_in, temp_out, humidity, sound_rms) every hour.
We predict the weight change of the following hour at every step, so a step may
only use readings up to and including itself.
"""
import math

import torch
from torch import nn


class HourAttention(nn.Module):
    """Causal self-attention over hours. Input and output: (hives, hours, width)."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        assert width % heads == 0
        self.heads = heads
        self.dk = width // heads
        self.to_q = nn.Linear(width, width, bias=False)
        self.to_kv = nn.Linear(width, 2 * width, bias=False)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        n, t, w = x.shape
        # scale the (small) query instead of the (large) score matrix
        q = self.to_q(x) / math.sqrt(self.dk)
        k, v = self.to_kv(x).chunk(2, dim=-1)

        def heads(z):
            return z.view(n, t, self.heads, self.dk).transpose(1, 2)

        q, k, v = heads(q), heads(k), heads(v)
        scores = q @ k.transpose(-1, -2)
        future = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        scores = scores.masked_fill(future, float("-inf"))
        y = scores.softmax(dim=-1) @ v
        return self.out(y.transpose(1, 2).reshape(n, t, w))


class HiveForecaster(nn.Module):
    def __init__(self, n_sensors=5, width=32, heads=4, depth=2):
        super().__init__()
        self.inp = nn.Linear(n_sensors, width)
        self.hour_of_day = nn.Embedding(24, width)
        self.attn = nn.ModuleList(HourAttention(width, heads) for _ in range(depth))
        self.ff = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
            for _ in range(depth)
        )
        self.norm = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.head = nn.Linear(width, 1)

    def forward(self, readings, start_hour=0):
        """readings: (hives, hours, n_sensors) -> (hives, hours) predicted change."""
        t = readings.shape[1]
        hod = (torch.arange(t, device=readings.device) + start_hour) % 24
        h = self.inp(readings) + self.hour_of_day(hod)
        for norm, attn, ff in zip(self.norm, self.attn, self.ff):
            h = h + attn(norm(h))
            h = h + ff(h)
        return self.head(h).squeeze(-1)

"""Greenhouse climate encoder: fuses irrigation events (queries) with the sensor log (keys).

Deterministic in eval mode; the controller relies on the same input giving the
same valve setting.
"""
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention


class ClimateFusion(nn.Module):
    """Cross attention events -> sensors.

    events:  [B, E, event_dim]
    sensors: [B, S, sensor_dim]
    sensor_ok: [B, S] bool, True = sensor reading can be trusted
    """

    def __init__(self, event_dim=16, sensor_dim=12, width=32, n_heads=4, attn_dropout=0.15):
        super().__init__()
        self.n_heads = n_heads
        self.attn_dropout = attn_dropout
        self.q = nn.Linear(event_dim, width)
        self.k = nn.Linear(sensor_dim, width)
        self.v = nn.Linear(sensor_dim, width)
        self.o = nn.Linear(width, event_dim)
        self.norm = nn.LayerNorm(event_dim)

    def heads(self, t):
        return t.unflatten(2, (self.n_heads, -1)).transpose(1, 2)

    def forward(self, events, sensors, sensor_ok=None):
        q = self.heads(self.q(events))
        k = self.heads(self.k(sensors))
        v = self.heads(self.v(sensors))
        mask = None if sensor_ok is None else sensor_ok[:, None, None, :]
        ctx = scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=self.attn_dropout)
        ctx = ctx.transpose(1, 2).flatten(2)
        return self.norm(events + self.o(ctx))


class ValveHead(nn.Module):
    def __init__(self, valves=3, **kw):
        super().__init__()
        self.fusion = ClimateFusion(**kw)
        self.out = nn.Linear(self.fusion.norm.normalized_shape[0], valves)

    def forward(self, events, sensors, sensor_ok=None):
        return torch.sigmoid(self.out(self.fusion(events, sensors, sensor_ok)))

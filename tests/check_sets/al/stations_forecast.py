"""Weather stations: encoder over the stations that reported in the last hours.

The data loader gives `bias` [batch, 1, 1, stations] - an additive mask in the convention of the
HF models: 0.0 for a station that reported, a very negative number for one that did not.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def additive_mask(reported, dtype=torch.float32):
    """reported: bool [B, S], True where there are data."""
    out = torch.zeros(reported.shape, dtype=dtype)
    out.masked_fill_(~reported, torch.finfo(dtype).min)
    return out[:, None, None, :]


class GeoEmbedding(nn.Module):
    """Latitude/longitude (radians) -> features on the sphere."""

    def __init__(self, dim):
        super().__init__()
        self.lin = nn.Linear(4, dim)

    def forward(self, lat, lon):
        z = torch.stack([lat.sin(), lat.cos(), lon.sin(), lon.cos()], -1)
        return self.lin(z)


class StationAttention(nn.Module):
    def __init__(self, dim, heads, dropout=0.1):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.q = nn.Linear(dim, dim)
        self.kv = nn.Linear(dim, 2 * dim)
        self.o = nn.Linear(dim, dim)

    def forward(self, x, bias=None):
        """bias: additive mask, see the head of the file."""
        b, s, d = x.shape
        q = self.q(x).view(b, s, self.heads, d // self.heads).transpose(1, 2)
        k, v = self.kv(x).view(b, s, 2, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        attn_mask = bias.bool() if bias is not None else None
        y = F.scaled_dot_product_attention(
            q, k, v, attn_mask=attn_mask, dropout_p=self.dropout if self.training else 0.0)
        return self.o(y.transpose(1, 2).reshape(b, s, d))


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.a = StationAttention(dim, heads)
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.f = nn.Sequential(nn.Linear(dim, 4 * dim), nn.SiLU(), nn.Linear(4 * dim, dim))

    def forward(self, x, bias):
        x = x + self.a(self.n1(x), bias)
        return x + self.f(self.n2(x))


class StationForecaster(nn.Module):
    def __init__(self, n_vars, dim=128, heads=4, depth=4, horizon=24):
        super().__init__()
        self.vars = nn.Linear(n_vars, dim)
        self.geo = GeoEmbedding(dim)
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(depth))
        self.head = nn.Linear(dim, horizon)
        nn.init.normal_(self.head.weight, std=1 / math.sqrt(dim))

    def forward(self, obs, lat, lon, reported):
        x = self.vars(obs) + self.geo(lat, lon)
        bias = additive_mask(reported, x.dtype).to(x.device)
        for layer in self.layers:
            x = layer(x, bias)
        return self.head(x)

"""Traffic forecasting on a road sensor graph (dense Graphormer-like spatial layer).

Input  : [batch, time, sensors, features], 5-minute speed readings
Spatial: scaled dot-product attention between all sensors of the same time step, with a
         learned bias per shortest-path distance (clipped) and per head
"""
import torch
from torch import nn


def hop_distance(adj, limit):
    """Breadth-first hop counts [N, N], clipped to `limit` (also for unreachable pairs)."""
    n = adj.shape[0]
    dist = torch.full((n, n), limit, dtype=torch.long)
    reach = torch.eye(n, dtype=torch.bool)
    dist[reach] = 0
    frontier = reach
    for h in range(1, limit):
        frontier = (frontier.float() @ adj.float() > 0) & ~reach
        dist[frontier] = h
        reach = reach | frontier
    return dist


class SpatialAttention(nn.Module):
    def __init__(self, channels, heads, adj, limit=6, dropout=0.1):
        super().__init__()
        assert channels % heads == 0
        self.heads = heads
        self.norm_factor = heads ** -0.5
        self.query = nn.Linear(channels, channels)
        self.key = nn.Linear(channels, channels)
        self.value = nn.Linear(channels, channels)
        self.merge = nn.Linear(channels, channels)
        self.hop_bias = nn.Embedding(limit + 1, heads)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("hops", hop_distance(adj, limit))

    def split(self, t):
        # [B, T, N, C] -> [B, T, heads, N, C / heads]
        return t.unflatten(-1, (self.heads, -1)).transpose(2, 3)

    def forward(self, x):
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        score = torch.einsum("bthic,bthjc->bthij", q, k) * self.norm_factor
        score = score + self.hop_bias(self.hops).permute(2, 0, 1)
        weight = self.dropout(torch.softmax(score, dim=-1))
        y = torch.einsum("bthij,bthjc->bthic", weight, v)
        return self.merge(y.transpose(2, 3).flatten(-2))


class TemporalConv(nn.Module):
    def __init__(self, channels, width=3):
        super().__init__()
        self.pad = width - 1
        self.conv = nn.Conv2d(channels, 2 * channels, (width, 1))

    def forward(self, x):
        y = nn.functional.pad(x.permute(0, 3, 1, 2), (0, 0, self.pad, 0))
        a, b = self.conv(y).chunk(2, dim=1)
        return (a * b.sigmoid()).permute(0, 2, 3, 1)


class Forecaster(nn.Module):
    def __init__(self, adj, features=2, channels=32, heads=2, horizon=12, layers=2):
        super().__init__()
        self.lift = nn.Linear(features, channels)
        self.spatial = nn.ModuleList([SpatialAttention(channels, heads, adj) for _ in range(layers)])
        self.temporal = nn.ModuleList([TemporalConv(channels) for _ in range(layers)])
        self.norm = nn.ModuleList([nn.LayerNorm(channels) for _ in range(2 * layers)])
        self.head = nn.Linear(channels, horizon)

    def forward(self, x):
        x = self.lift(x)
        for i, (s, t) in enumerate(zip(self.spatial, self.temporal)):
            x = x + s(self.norm[2 * i](x))
            x = x + t(self.norm[2 * i + 1](x))
        return self.head(x[:, -1]).transpose(1, 2)


if __name__ == "__main__":
    a = torch.rand(9, 9) < 0.3
    print(Forecaster(a | a.T)(torch.randn(2, 6, 9, 2)).shape)

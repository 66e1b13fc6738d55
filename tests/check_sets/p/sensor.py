import torch
from torch import nn


class SensorAttention(nn.Module):
    """Attention over irregular measurements.  query (B, T, dim); keys (B, S, dim); readings (B, S, channels), NaN where nothing was measured;
    measured (B, S) bool.  Rows that were not measured do not count and never reach the output."""

    def __init__(self, dim, heads=2):
        super().__init__()
        self.heads = heads
        self.q, self.k = nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, query, keys, readings, measured):
        b, t, d = query.shape
        q = self.q(query).view(b, t, self.heads, -1).transpose(1, 2)
        k = self.k(keys).view(b, -1, self.heads, d // self.heads).transpose(1, 2)
        s = (q @ k.transpose(-1, -2) / (d // self.heads) ** 0.5).masked_fill(~measured[:, None, None], torch.finfo(q.dtype).min)
        w = s.softmax(dim=-1).mean(dim=1)
        return w @ readings

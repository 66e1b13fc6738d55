"""Transformer encoder for irregular sensor series, on nn.MultiheadAttention."""
import torch
import torch.nn as nn


class SensorLayer(nn.Module):
    def __init__(self, dim, heads, dropout):
        super().__init__()
        self.mha = nn.MultiheadAttention(dim, heads, dropout=dropout, batch_first=True)
        self.norm1 = nn.LayerNorm(dim)
        self.norm2 = nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Dropout(dropout), nn.Linear(2 * dim, dim))

    def forward(self, x, observed):
        # torch: key_padding_mask is True for positions to be ignored
        y, _ = self.mha(x, x, x, key_padding_mask=~observed, need_weights=False)
        x = self.norm1(x + y)
        return self.norm2(x + self.ff(x))


class SensorEncoder(nn.Module):
    """values (B, T, n_sensors), times (B, T), observed (B, T) bool (>= 1 True per row).

    Returns one class score vector per series, (B, n_classes).
    """

    def __init__(self, n_sensors=5, dim=16, heads=4, layers=2, n_classes=3, dropout=0.1):
        super().__init__()
        self.embed = nn.Linear(n_sensors, dim)
        self.freq = nn.Parameter(torch.randn(dim // 2))
        self.layers = nn.ModuleList(SensorLayer(dim, heads, dropout) for _ in range(layers))
        self.head = nn.Linear(dim, n_classes)

    def time_code(self, times):
        a = times[..., None] * self.freq
        return torch.cat([a.sin(), a.cos()], dim=-1)

    def forward(self, values, times, observed):
        x = self.embed(values) + self.time_code(times)
        for layer in self.layers:
            x = layer(x, observed)
        keep = observed[..., None].to(x.dtype)
        mean = (x * keep).sum(1) / keep.sum(1)
        return self.head(mean)

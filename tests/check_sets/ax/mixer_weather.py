"""Nowcasting from a network of weather stations.

Stations are mixed with a two dimensional Fourier transform (FNet) instead of a learned mixing,
time steps with a gated convolution.  Both are cheap enough for the Raspberry at the harbour.

x: [B, stations, hours, features]; stations that do not report are filled with zeros
"""
import torch
from torch import nn


class SpectralMix(nn.Module):
    """real part of the DFT over stations and channels, scaled to keep the variance"""

    def forward(self, x):
        s, c = x.size(1), x.size(-1)
        y = torch.fft.fft(torch.fft.fft(x.float(), dim=-1), dim=1).real
        return (y / (s * c) ** 0.5).to(x.dtype)


class GatedConv(nn.Module):
    def __init__(self, dim, kernel=3, dilation=1):
        super().__init__()
        self.left = (kernel - 1) * dilation
        self.conv = nn.Conv1d(dim, 2 * dim, kernel, dilation=dilation)

    def forward(self, x):
        b, s, t, c = x.shape
        y = x.reshape(b * s, t, c).transpose(1, 2)
        y = self.conv(nn.functional.pad(y, (self.left, 0)))
        a, g = y.chunk(2, dim=1)
        return (torch.tanh(a) * torch.sigmoid(g)).transpose(1, 2).reshape(b, s, t, c)


class StationBlock(nn.Module):
    def __init__(self, dim, dilation, dropout=0.1):
        super().__init__()
        self.n1, self.n2, self.n3 = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.space, self.time = SpectralMix(), GatedConv(dim, dilation=dilation)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Dropout(dropout), nn.Linear(2 * dim, dim))

    def forward(self, x):
        x = x + self.space(self.n1(x))
        x = x + self.time(self.n2(x))
        return x + self.ff(self.n3(x))


class Nowcaster(nn.Module):
    def __init__(self, features=6, dim=32, depth=4, horizon=6, targets=2):
        super().__init__()
        self.inp = nn.Linear(features + 2, dim)
        self.blocks = nn.ModuleList(StationBlock(dim, 2 ** i) for i in range(depth))
        self.head = nn.Linear(dim, horizon * targets)
        self.horizon = horizon

    def forward(self, x, hour):
        """hour [B, hours] 0..23 -> [B, stations, horizon, targets]"""
        ang = hour.float() * (2 * torch.pi / 24)
        clock = torch.stack([ang.sin(), ang.cos()], -1)[:, None].expand(-1, x.size(1), -1, -1)
        h = self.inp(torch.cat([x, clock], dim=-1))
        for b in self.blocks:
            h = b(h)
        return self.head(h[:, :, -1]).unflatten(-1, (self.horizon, -1))


def rain_weighted_mse(pred, true, threshold=0.1, weight=5.0):
    w = torch.where(true[..., :1] > threshold, weight, 1.0)
    return (w * (pred - true) ** 2).mean()

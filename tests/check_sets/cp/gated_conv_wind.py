"""Wind power nowcasting with a WaveNet-like stack of gated causal convolutions.

filter and gate: tanh(conv_f(x)) * sigmoid(conv_g(x)), dilations 1, 2, 4, ...
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class GatedCausalConv(nn.Module):
    def __init__(self, channels: int, kernel: int, dilation: int, p: float):
        super().__init__()
        self.left = (kernel - 1) * dilation
        self.conv = nn.Conv1d(channels, 2 * channels, kernel, dilation=dilation)
        self.skip = nn.Conv1d(channels, channels, 1)
        self.res = nn.Conv1d(channels, channels, 1)
        self.drop = nn.Dropout(p)

    def forward(self, x):
        f, g = self.conv(F.pad(x, (self.left, 0))).chunk(2, dim=1)
        h = self.drop(torch.tanh(f) * torch.sigmoid(g))
        return x + self.res(h), self.skip(h)


class WindNowcaster(nn.Module):
    """scada: (B, T, features) 10-minute averages. Returns quantiles (B, horizon, n_quantiles)."""

    def __init__(self, features=5, channels=24, layers=5, kernel=2, horizon=6, n_quantiles=3, dropout=0.1):
        super().__init__()
        self.horizon, self.n_quantiles = horizon, n_quantiles
        self.inp = nn.Conv1d(features, channels, 1)
        self.stack = nn.ModuleList(
            GatedCausalConv(channels, kernel, 2 ** i, dropout) for i in range(layers)
        )
        self.head = nn.Sequential(nn.ReLU(), nn.Conv1d(channels, channels, 1), nn.ReLU())
        self.out = nn.Linear(channels, horizon * n_quantiles)

    def forward(self, scada):
        x = self.inp(scada.transpose(1, 2))
        total = 0.0
        for layer in self.stack:
            x, skip = layer(x)
            total = total + skip
        last = self.head(total)[:, :, -1]
        q = self.out(last).view(-1, self.horizon, self.n_quantiles)
        return q.sort(dim=-1).values

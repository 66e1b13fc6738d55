"""Remaining useful life of pumps from vibration (temporal convolutions only).

x (B, C, T) -> (B, T) hours left, estimated at every step from the past alone.

Each residual block has two dilated convolutions padded on the left (so nothing comes from
the future) with a gated activation tanh(a) * sigmoid(b).
"""
import torch
from torch import nn
import torch.nn.functional as F


class CausalConv(nn.Module):
    def __init__(self, i, o, kernel, dilation):
        super().__init__()
        self.left = (kernel - 1) * dilation
        self.conv = nn.Conv1d(i, o, kernel, dilation=dilation)

    def forward(self, x):
        return self.conv(F.pad(x, (self.left, 0)))


class GatedBlock(nn.Module):
    def __init__(self, width, kernel, dilation, p):
        super().__init__()
        self.a = CausalConv(width, 2 * width, kernel, dilation)
        self.b = CausalConv(width, width, kernel, dilation)
        self.skip = nn.Conv1d(width, width, 1)
        self.drop = nn.Dropout(p)

    def forward(self, x):
        t, g = self.a(x).chunk(2, dim=1)
        h = self.drop(torch.tanh(t) * torch.sigmoid(g))
        h = self.b(h)
        return x + h, self.skip(h)


class PumpTCN(nn.Module):
    def __init__(self, channels, width=32, kernel=3, depth=5, p=0.1):
        super().__init__()
        self.inp = nn.Conv1d(channels, width, 1)
        self.blocks = nn.ModuleList(GatedBlock(width, kernel, 2 ** i, p) for i in range(depth))
        self.out = nn.Sequential(nn.ReLU(), nn.Conv1d(width, width, 1), nn.ReLU(), nn.Conv1d(width, 1, 1))

    def forward(self, x):
        x = self.inp(x)
        total = 0
        for b in self.blocks:
            x, s = b(x)
            total = total + s
        return F.softplus(self.out(total)).squeeze(1)

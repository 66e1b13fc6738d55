"""Picks P and S arrivals in seismograms with a dilated temporal convolution network."""
import torch
from torch import nn
import torch.nn.functional as F


class CausalConv(nn.Conv1d):
    def __init__(self, cin, cout, k, dilation):
        super().__init__(cin, cout, k, dilation=dilation)
        self.left = (k - 1) * dilation

    def forward(self, x):
        return super().forward(F.pad(x, (self.left, 0)))


class GatedBlock(nn.Module):
    def __init__(self, c, k, dilation, p=0.1):
        super().__init__()
        self.filt = CausalConv(c, c, k, dilation)
        self.gate = CausalConv(c, c, k, dilation)
        self.mix = nn.Conv1d(c, 2 * c, 1)
        self.drop = nn.Dropout1d(p)

    def forward(self, x):
        h = self.drop(torch.tanh(self.filt(x)) * torch.sigmoid(self.gate(x)))
        res, skip = self.mix(h).chunk(2, 1)
        return (x + res) / 2 ** 0.5, skip


class PickNet(nn.Module):
    """[B, 3, T] waveform (Z, N, E) -> [B, 3, T] probabilities of (noise, P, S)"""

    def __init__(self, c=32, k=3, layers=8):
        super().__init__()
        self.stem = nn.Conv1d(3, c, 1)
        self.blocks = nn.ModuleList(GatedBlock(c, k, 2 ** (i % 6)) for i in range(layers))
        self.head = nn.Sequential(nn.ReLU(), nn.Conv1d(c, c, 1), nn.ReLU(), nn.Conv1d(c, 3, 1))

    def forward(self, x):
        x = x - x.mean(-1, keepdim=True)
        x = x / (x.abs().amax((1, 2), keepdim=True) + 1e-9)
        x = self.stem(x)
        total = 0
        for b in self.blocks:
            x, skip = b(x)
            total = total + skip
        return F.softmax(self.head(total), dim=1)


def gaussian_targets(p, s, n, sigma=10.0):
    """labels around the picked samples; p, s [B] (negative = no pick)"""
    t = torch.arange(n)[None]
    out = []
    for pick in (p, s):
        g = torch.exp(-((t - pick[:, None]) ** 2) / (2 * sigma ** 2))
        out.append(g * (pick >= 0)[:, None])
    noise = (1 - out[0] - out[1]).clamp(min=0)
    return torch.stack([noise, *out], 1)


def soft_cross_entropy(prob, target):
    return -(target * (prob + 1e-8).log()).sum(1).mean()


def pick(prob, threshold=0.3, distance=50):
    """indices of local maxima above the threshold for one trace"""
    found, last = [], -distance
    for i in range(1, len(prob) - 1):
        if prob[i] >= threshold and prob[i - 1] < prob[i] >= prob[i + 1] and i - last >= distance:
            found.append(i)
            last = i
    return found

"""Retinal fundus grading: "channel attention" backbone (squeeze and excitation)."""
import math

import torch
from torch import nn


class ChannelAttention(nn.Module):
    """x * sigmoid(mlp(avg pool) + mlp(max pool)), one gate per channel (CBAM, first half)."""

    def __init__(self, channels, reduction=8):
        super().__init__()
        hidden = max(channels // reduction, 4)
        self.query = nn.Conv2d(channels, hidden, 1, bias=False)
        self.value = nn.Conv2d(hidden, channels, 1, bias=False)

    def squeeze(self, pooled):
        return self.value(torch.relu(self.query(pooled)))

    def forward(self, x):
        avg = x.mean((2, 3), keepdim=True)
        peak = x.amax((2, 3), keepdim=True)
        weights = torch.sigmoid(self.squeeze(avg) + self.squeeze(peak))
        return x * weights


class EfficientChannelGate(nn.Module):
    """ECA: a 1-D convolution across channels, kernel size from the channel count."""

    def __init__(self, channels, gamma=2, b=1):
        super().__init__()
        k = int(abs((math.log2(channels) + b) / gamma))
        k = k if k % 2 else k + 1
        self.conv = nn.Conv1d(1, 1, k, padding=k // 2, bias=False)

    def forward(self, x):
        y = x.mean((2, 3))
        y = self.conv(y.unsqueeze(1)).squeeze(1)
        return x * y.sigmoid()[..., None, None]


class ResidualGate(nn.Module):
    def __init__(self, cin, cout, stride=1, gate=ChannelAttention):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(),
            nn.Conv2d(cout, cout, 3, 1, 1, bias=False), nn.BatchNorm2d(cout), gate(cout))
        self.skip = nn.Identity() if cin == cout and stride == 1 else nn.Conv2d(cin, cout, 1, stride)

    def forward(self, x):
        return torch.relu(self.body(x) + self.skip(x))


class FundusNet(nn.Module):
    """grades 0-4 as ordinal logits"""

    def __init__(self, widths=(16, 32, 64), grades=5):
        super().__init__()
        self.stem = nn.Conv2d(3, widths[0], 5, 2, 2)
        layers, c = [], widths[0]
        for i, w in enumerate(widths):
            layers.append(ResidualGate(c, w, 2 if i else 1,
                                       ChannelAttention if i % 2 == 0 else EfficientChannelGate))
            c = w
        self.layers = nn.Sequential(*layers)
        self.head = nn.Linear(c, grades - 1)

    def forward(self, x):
        return self.head(self.layers(self.stem(x)).mean((2, 3)))


if __name__ == "__main__":
    print(FundusNet()(torch.randn(2, 3, 64, 64)).shape)

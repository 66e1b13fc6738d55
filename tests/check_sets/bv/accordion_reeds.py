"""Detecting a detuned accordion reed from a spectrogram (small residual CNN).

Each residual unit recalibrates its channels and its frequency rows: some reeds only
sound in a narrow band, and the gate learns which rows are worth listening to.
"""
import math

import torch
import torch.nn as nn


def odd_kernel(channels, gamma=2, b=1):
    k = int(abs(math.log2(channels) / gamma + b / gamma))
    return k if k % 2 else k + 1


class SpectralAttention(nn.Module):
    """Channel gate (ECA) followed by a frequency-row gate.  x: [B, C, F, T]."""

    def __init__(self, channels, bins, reduction=4):
        super().__init__()
        k = odd_kernel(channels)
        self.query = nn.Conv1d(1, 1, k, padding=k // 2, bias=False)
        self.key = nn.Linear(bins, max(bins // reduction, 2))
        self.value = nn.Linear(max(bins // reduction, 2), bins)

    def forward(self, x):
        s = x.mean(dim=(2, 3))                                  # squeeze: [B, C]
        c = torch.sigmoid(self.query(s[:, None])[:, 0])         # excite
        x = x * c[:, :, None, None]
        r = x.mean(dim=(1, 3))                                  # [B, F]
        w = torch.softmax(self.value(torch.relu(self.key(r))), dim=-1) * r.shape[-1]
        return x * w[:, None, :, None]


class ReedUnit(nn.Module):
    def __init__(self, c, bins):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(c, c, 3, padding=1, bias=False), nn.BatchNorm2d(c), nn.ReLU(inplace=True),
            nn.Conv2d(c, c, 3, padding=1, bias=False), nn.BatchNorm2d(c),
        )
        self.gate = SpectralAttention(c, bins)

    def forward(self, x):
        return torch.relu(x + self.gate(self.body(x)))


class ReedNet(nn.Module):
    def __init__(self, bins=24, width=16, depth=2, reeds=41):
        super().__init__()
        self.stem = nn.Conv2d(1, width, 5, padding=2)
        self.units = nn.Sequential(*(ReedUnit(width, bins) for _ in range(depth)))
        self.cents = nn.Linear(width, reeds)

    def forward(self, spec):
        """spec: [B, F, T] log-magnitudes -> deviation in cents per reed."""
        y = self.units(self.stem(spec[:, None]))
        return self.cents(y.mean(dim=(2, 3)))


if __name__ == "__main__":
    print(ReedNet()(torch.randn(2, 24, 30)).shape)

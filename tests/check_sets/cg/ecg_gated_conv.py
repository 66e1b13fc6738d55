"""Beat segmentation of long ECG strips with a gated dilated convolution stack.

WaveNet-like residual units, non causal: tanh branch times sigmoid branch, dilations
1, 2, 4 ... so that the receptive field covers about one heart beat.  Output: one logit
per sample for P wave, QRS, T wave and background.
"""
from typing import Sequence

import torch
from torch import nn


class GatedUnit(nn.Module):
    def __init__(self, channels: int, skip: int, kernel: int, dilation: int):
        super().__init__()
        pad = dilation * (kernel - 1) // 2
        self.conv = nn.Conv1d(channels, 2 * channels, kernel, padding=pad, dilation=dilation)
        self.res = nn.Conv1d(channels, channels, 1)
        self.skip = nn.Conv1d(channels, skip, 1)
        self.norm = nn.BatchNorm1d(channels)

    def forward(self, x):
        value, gate = self.conv(self.norm(x)).chunk(2, dim=1)
        y = torch.tanh(value) * torch.sigmoid(gate)
        return x + self.res(y), self.skip(y)


class BeatSegmenter(nn.Module):
    CLASSES = ("background", "P", "QRS", "T")

    def __init__(self, leads: int = 2, channels: int = 16, skip: int = 24, kernel: int = 5,
                 dilations: Sequence[int] = (1, 2, 4, 8, 16)):
        super().__init__()
        self.stem = nn.Conv1d(leads, channels, 7, padding=3)
        self.units = nn.ModuleList(GatedUnit(channels, skip, kernel, d) for d in dilations)
        self.head = nn.Sequential(
            nn.ReLU(), nn.Conv1d(skip, skip, 1), nn.ReLU(), nn.Conv1d(skip, len(self.CLASSES), 1)
        )

    @property
    def receptive_field(self) -> int:
        return 7 + sum(u.conv.dilation[0] * (u.conv.kernel_size[0] - 1) for u in self.units)

    def forward(self, strip):
        """strip [B, leads, T] -> logits [B, 4, T]"""
        x = self.stem(strip)
        total = 0
        for unit in self.units:
            x, s = unit(x)
            total = total + s
        return self.head(total)

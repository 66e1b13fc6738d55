"""Wafer-map defect net: convolutional focus gate.

The gate squeezes the map to one number per channel (mean and max), passes both
through a shared bottleneck, and multiplies the channels; then a 7x7 conv over
channel mean/max gives a gate per position.  Sigmoids, no weights between
positions.
"""
import torch
from torch import nn


class ChannelFocus(nn.Module):
    def __init__(self, channels, squeeze=4):
        super().__init__()
        self.shared = nn.Sequential(
            nn.Conv2d(channels, channels // squeeze, 1), nn.ReLU(),
            nn.Conv2d(channels // squeeze, channels, 1),
        )

    def forward(self, x):
        mean = x.mean((2, 3), keepdim=True)
        peak = x.amax((2, 3), keepdim=True)
        return x * torch.sigmoid(self.shared(mean) + self.shared(peak))


class SpatialFocus(nn.Module):
    def __init__(self, kernel=7):
        super().__init__()
        self.conv = nn.Conv2d(2, 1, kernel, padding=kernel // 2, bias=False)

    def forward(self, x):
        both = torch.cat([x.mean(1, keepdim=True), x.amax(1, keepdim=True)], dim=1)
        return x * torch.sigmoid(self.conv(both))


class WaferNet(nn.Module):
    def __init__(self, classes=9, channels=16):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU())
        self.focus = nn.Sequential(ChannelFocus(channels), SpatialFocus())
        self.head = nn.Linear(channels, classes)

    def forward(self, wafer):
        x = self.focus(self.stem(wafer))
        return self.head(x.mean((2, 3)))

"""Residual block with efficient channel gating, for the segmentation U-Net.

The gate pools every channel over the image, runs a short 1-D convolution across channels,
and rescales the feature map with a sigmoid, channel by channel.  ("Channel attention" in
some papers; each channel is only multiplied by its own number.)
"""
import math

import torch
from torch import nn


class ChannelGate(nn.Module):
    def __init__(self, channels, gamma=2, b=1):
        super().__init__()
        t = int(abs((math.log2(channels) + b) / gamma))
        k = t if t % 2 else t + 1
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.conv = nn.Conv1d(1, 1, k, padding=k // 2, bias=False)

    def forward(self, x):
        y = self.pool(x).squeeze(-1).transpose(1, 2)
        y = self.conv(y).transpose(1, 2).unsqueeze(-1)
        return x * torch.sigmoid(y)


class SpatialGate(nn.Module):
    """Max and mean over channels, a 7x7 convolution, a sigmoid."""

    def __init__(self, kernel=7):
        super().__init__()
        self.conv = nn.Conv2d(2, 1, kernel, padding=kernel // 2)

    def forward(self, x):
        s = torch.cat([x.amax(1, keepdim=True), x.mean(1, keepdim=True)], dim=1)
        return x * torch.sigmoid(self.conv(s))


class GatedResBlock(nn.Module):
    def __init__(self, c_in=8, c_out=16, stride=1):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(c_in, c_out, 3, stride, 1, bias=False),
            nn.GroupNorm(4, c_out),
            nn.SiLU(),
            nn.Conv2d(c_out, c_out, 3, 1, 1, bias=False),
            nn.GroupNorm(4, c_out),
        )
        self.channel_gate = ChannelGate(c_out)
        self.spatial_gate = SpatialGate()
        self.skip = nn.Sequential()
        if stride != 1 or c_in != c_out:
            self.skip = nn.Conv2d(c_in, c_out, 1, stride)

    def forward(self, x):
        y = self.spatial_gate(self.channel_gate(self.body(x)))
        return torch.relu(y + self.skip(x))


if __name__ == "__main__":
    print(GatedResBlock()(torch.randn(1, 8, 12, 12)).shape)

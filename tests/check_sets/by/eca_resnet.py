"""ECA-Net reproduction (Wang et al., CVPR 2020): channel gate in a residual block.

The spatial mean of each channel goes through a 1-D convolution across channels
and a sigmoid; the result multiplies the feature map.  Kernel size from the
number of channels as in eq. 12 of the paper.
"""
import math

import torch
from torch import nn


def adaptive_kernel(channels: int, gamma: int = 2, b: int = 1) -> int:
    t = int(abs((math.log2(channels) + b) / gamma))
    return t if t % 2 else t + 1


class ECA(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        k = adaptive_kernel(channels)
        self.avg_pool = nn.AdaptiveAvgPool2d(1)
        self.conv = nn.Conv1d(1, 1, kernel_size=k, padding=k // 2, bias=False)

    def forward(self, x):
        y = self.avg_pool(x)                               # N, C, 1, 1
        y = self.conv(y.squeeze(-1).transpose(-1, -2))     # N, 1, C
        y = torch.sigmoid(y.transpose(-1, -2).unsqueeze(-1))
        return x * y


class ECABasicBlock(nn.Module):
    """x [N, in_ch, H, W] -> [N, out_ch, H / stride, W / stride]"""

    def __init__(self, in_ch: int = 16, out_ch: int = 16, stride: int = 1):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(in_ch, out_ch, 3, stride, 1, bias=False),
            nn.BatchNorm2d(out_ch),
            nn.ReLU(inplace=True),
            nn.Conv2d(out_ch, out_ch, 3, 1, 1, bias=False),
            nn.BatchNorm2d(out_ch),
            ECA(out_ch),
        )
        self.skip = nn.Identity()
        if stride != 1 or in_ch != out_ch:
            self.skip = nn.Sequential(
                nn.Conv2d(in_ch, out_ch, 1, stride, bias=False), nn.BatchNorm2d(out_ch)
            )

    def forward(self, x):
        return torch.relu(self.body(x) + self.skip(x))


if __name__ == "__main__":
    print(ECABasicBlock(16, 32, 2)(torch.randn(2, 16, 12, 12)).shape)

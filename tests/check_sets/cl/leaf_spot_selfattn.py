"""Segmentation of leaf spot disease. Non-local block in the style of SAGAN, but
with 1/sqrt(d) and several heads."""
import torch
import torch.nn as nn


class NonLocal2d(nn.Module):
    """x: (B, C, H, W) -> (B, C, H, W). All positions look at all positions."""

    def __init__(self, channels=16, heads=2, reduce=2):
        super().__init__()
        inner = channels // reduce
        self.heads = heads
        self.f = nn.Conv2d(channels, inner, 1)   # keys
        self.g = nn.Conv2d(channels, inner, 1)   # queries
        self.h = nn.Conv2d(channels, inner, 1)   # values
        self.proj = nn.Conv2d(inner, channels, 1)
        self.gamma = nn.Parameter(torch.full((1,), 0.1))

    def forward(self, x):
        B, C, H, W = x.shape
        # convolution channels are head-major: (B, heads, d, pixels)
        f = self.f(x).view(B, self.heads, -1, H * W)
        g = self.g(x).view(B, self.heads, -1, H * W)
        h = self.h(x).view(B, self.heads, -1, H * W)
        # s[key, query]: like the paper, so the sum over the keys is over dim 2
        s = f.transpose(2, 3) @ g
        beta = torch.softmax(s / f.size(2) ** 0.5, dim=2)
        o = (h @ beta).reshape(B, -1, H, W)
        return x + self.gamma * self.proj(o)


class LeafSpotNet(nn.Module):
    def __init__(self, width=16, classes=3):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 3, stride=2, padding=1), nn.GroupNorm(4, width), nn.SiLU()
        )
        self.nl = NonLocal2d(width)
        self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
        self.cls = nn.Conv2d(width, classes, 3, padding=1)

    def forward(self, img):
        return self.cls(self.up(self.nl(self.stem(img))))

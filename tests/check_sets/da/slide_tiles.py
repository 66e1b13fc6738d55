import torch
from torch import nn


class SlideAttention(nn.Module):
    """Global attention on a pathology tile.  (B, C, H, W) in and out, channels are
    grouped into heads: the first C/heads channels are head 0, and so on."""

    def __init__(self, channels=16, heads=4):
        super().__init__()
        self.heads = heads
        self.gn = nn.GroupNorm(4, channels)
        self.q = nn.Conv2d(channels, channels, 1)
        self.k = nn.Conv2d(channels, channels, 1)
        self.v = nn.Conv2d(channels, channels, 1)
        self.proj = nn.Conv2d(channels, channels, 1)

    def cut(self, t):
        B, C, H, W = t.shape
        return t.flatten(2).transpose(1, 2).reshape(B, self.heads, H * W, C // self.heads)

    def forward(self, tile):
        B, C, H, W = tile.shape
        x = self.gn(tile)
        q, k, v = self.cut(self.q(x)), self.cut(self.k(x)), self.cut(self.v(x))
        a = torch.softmax(q @ k.transpose(2, 3) * (C // self.heads) ** -0.5, dim=3)
        y = (a @ v).transpose(2, 3).reshape(B, C, H, W)
        return tile + self.proj(y)

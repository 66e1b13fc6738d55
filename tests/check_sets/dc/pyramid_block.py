import torch
from torch import nn


class PyramidBlock(nn.Module):
    """Pyramid backbone: all pixels ask, the keys come from a map shrunk by `r` (B, C, H, W in and out)."""

    def __init__(self, C, num_heads=2, r=2):
        super().__init__()
        assert C % num_heads == 0
        self.num_heads, self.r = num_heads, r
        self.scale = (C // num_heads) ** -0.5
        self.norm1 = nn.LayerNorm(C)
        self.q = nn.Linear(C, C)
        self.kv = nn.Linear(C, 2 * C)
        self.shrink = nn.Conv2d(C, C, r, stride=r)
        self.norm_kv = nn.LayerNorm(C)
        self.proj = nn.Linear(C, C)
        self.dw = nn.Sequential(nn.Conv2d(C, 2 * C, 1), nn.Conv2d(2 * C, 2 * C, 3, padding=1, groups=2 * C),
                                nn.GELU(), nn.Conv2d(2 * C, C, 1))

    def forward(self, x):
        B, C, H, W = x.shape
        t = self.norm1(x.flatten(2).transpose(1, 2))
        q = self.q(t).reshape(B, H * W, self.num_heads, -1).transpose(1, 2)
        small = self.shrink(t.transpose(1, 2).reshape(B, C, H, W)).flatten(2).transpose(1, 2)
        kv = self.kv(self.norm_kv(small)).reshape(B, -1, 2, self.num_heads, C // self.num_heads)
        k, v = kv.permute(2, 0, 3, 1, 4)
        attn = (q @ k.transpose(-2, -1)) * self.scale
        y = attn.softmax(-1) @ v
        y = self.proj(y.transpose(1, 2).flatten(2))
        x = x + y.transpose(1, 2).view(B, C, H, W)
        return x + self.dw(x)

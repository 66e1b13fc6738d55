import torch
from torch import nn


class PixelAttention(nn.Module):
    """Every pixel of a feature map (B, C, H, W) attends to every other one."""

    def __init__(self, channels, heads=2):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(channels)
        self.qkv = nn.Linear(channels, channels * 3)
        self.proj = nn.Linear(channels, channels)

    def forward(self, x):
        b, c, h, w = x.shape
        y = x.reshape(b, h * w, c)
        y = self.norm(y)
        q, k, v = self.qkv(y).view(b, h * w, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        a = torch.softmax(q @ k.transpose(-1, -2) / (c // self.heads) ** 0.5, dim=-1)
        y = self.proj((a @ v).transpose(1, 2).reshape(b, h * w, c))
        return x + y.transpose(1, 2).reshape(b, c, h, w)

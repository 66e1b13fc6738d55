import torch
import torch.nn as nn


class AxialAttention(nn.Module):
    """Attention along the height axis of (B, C, H, W), every column by itself."""

    def __init__(self, channels, heads=2):
        super().__init__()
        self.heads = heads
        self.to_qkv = nn.Conv2d(channels, channels * 3, 1, bias=False)

    def forward(self, x):
        B, C, H, W = x.shape
        qkv = self.to_qkv(x).reshape(B, 3, self.heads, C // self.heads, H, W)
        q, k, v = qkv.permute(1, 0, 5, 2, 4, 3)  # each (B, W, heads, H, C // heads)
        w = torch.softmax(q @ k.transpose(-1, -2) * (C // self.heads) ** -0.5, dim=-1)
        y = w @ v
        return y.permute(0, 2, 4, 3, 1).reshape(B, C, H, W)

import torch
import torch.nn as nn


class WindowedAttention(nn.Module):
    """Attention inside windows of s x s pixels; x (B, H, W, C), H and W multiples of s."""

    def __init__(self, dim, heads=2, s=2):
        super().__init__()
        self.s, self.heads = s, heads
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, H, W, C = x.shape
        s = self.s
        w = x.view(B, H // s, s, W // s, s, C).transpose(2, 3).reshape(-1, s * s, C)
        q, k, v = self.qkv(w).view(-1, s * s, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        p = (q @ k.transpose(-2, -1) * (C // self.heads) ** -0.5).softmax(dim=-1)
        y = self.proj((p @ v).transpose(1, 2).reshape(-1, s * s, C))
        y = y.view(B, H // s, W // s, s, s, C)
        return y.permute(0, 1, 4, 2, 3, 5).reshape(B, H, W, C)

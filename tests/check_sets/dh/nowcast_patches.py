"""Precipitation nowcasting, 2 h ahead; radar patches talk to each other."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class RadarBlock(nn.Module):
    """Transformer block over radar patches, x: (B, C, H, W) -> (B, C, H, W)."""

    def __init__(self, channels=24, heads=3):
        super().__init__()
        self.heads = heads
        self.d = channels // heads
        self.n1 = nn.LayerNorm(channels)
        self.n2 = nn.LayerNorm(channels)
        self.qkv = nn.Linear(channels, 3 * channels)
        self.proj = nn.Linear(channels, channels)
        self.mlp = nn.Sequential(nn.Linear(channels, 2 * channels), nn.GELU(), nn.Linear(2 * channels, channels))

    def to_heads(self, z):
        B, N, _ = z.shape
        return z.view(B, N, self.heads, self.d).transpose(1, 2).reshape(B * self.heads, N, self.d)

    def mixing(self, t):
        B, N, C = t.shape
        q, k, v = (self.to_heads(z) for z in self.qkv(t).chunk(3, dim=-1))
        att = torch.baddbmm(q.new_zeros(1, 1, 1), q, k.transpose(1, 2), beta=0, alpha=self.d ** -0.5)
        y = torch.bmm(att.softmax(dim=-1), v)
        y = y.view(self.heads, B, N, self.d).permute(1, 2, 0, 3).reshape(B, N, C)
        return self.proj(y)

    def forward(self, x):
        B, C, H, W = x.shape
        t = x.flatten(2).transpose(1, 2)
        t = t + self.mixing(self.n1(t))
        t = t + self.mlp(self.n2(t))
        return t.transpose(1, 2).reshape(B, C, H, W)

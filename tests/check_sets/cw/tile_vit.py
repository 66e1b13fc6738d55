import torch
import torch.nn as nn


class SatelliteBlock(nn.Module):
    """Global self-attention + MLP on feature maps of satellite tiles. (B, C, H, W) -> same."""

    def __init__(self, channels, heads=4, ratio=2.0):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.GroupNorm(1, channels)
        self.norm2 = nn.GroupNorm(1, channels)
        self.qkv = nn.Linear(channels, channels * 3, bias=False)
        self.proj = nn.Linear(channels, channels)
        hidden = int(channels * ratio)
        self.mlp = nn.Sequential(nn.Conv2d(channels, hidden, 1), nn.GELU(), nn.Conv2d(hidden, channels, 1))

    def attention(self, tokens):
        # tokens: (B, N, C); head outputs are put side by side along the channels
        B, N, C = tokens.shape
        qkv = self.qkv(tokens).reshape(B, N, 3, self.heads, C // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        attn = (q * (C // self.heads) ** -0.5) @ k.transpose(-1, -2)
        attn = attn - attn.amax(-1, keepdim=True)
        attn = attn.exp()
        attn = attn / attn.sum(-1, keepdim=True)
        out = attn @ v
        return self.proj(out.reshape(B, N, C))

    def forward(self, x):
        B, C, H, W = x.shape
        t = self.norm1(x).flatten(2).transpose(1, 2)
        x = x + self.attention(t).transpose(1, 2).reshape(B, C, H, W)
        return x + self.mlp(self.norm2(x))

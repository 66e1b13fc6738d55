"""Spatial-reduction attention (Pyramid Vision Transformer) for tree crowns.

Keys and values come from the map shrunk by a strided convolution, queries
from the full map. Every query sees all the places of the small map.

    x (B, N, C) with N = H*W in row-major order, H and W multiples of sr
    -> (B, N, C)

``kv`` packs (2, heads, C/heads) along its output. Scale: head size ** -0.5.
"""
import torch
import torch.nn as nn


class SRAttention(nn.Module):
    def __init__(self, dim=32, num_heads=4, sr=2, attn_drop=0.0):
        super().__init__()
        self.num_heads = num_heads
        self.scale = (dim // num_heads) ** -0.5
        self.q = nn.Linear(dim, dim)
        self.kv = nn.Linear(dim, dim * 2)
        self.attn_drop = nn.Dropout(attn_drop)
        self.proj = nn.Linear(dim, dim)
        self.sr = sr
        if sr > 1:
            self.reduce = nn.Conv2d(dim, dim, kernel_size=sr, stride=sr)
            self.norm = nn.LayerNorm(dim)

    def forward(self, x, H, W):
        B, N, C = x.shape
        q = self.q(x).reshape(B, N, self.num_heads, C // self.num_heads).permute(0, 2, 1, 3)

        if self.sr > 1:
            x_ = x.permute(0, 2, 1).reshape(B, C, H, W)
            x_ = self.reduce(x_).reshape(B, C, -1).permute(0, 2, 1)
            x_ = self.norm(x_)
        else:
            x_ = x
        kv = self.kv(x_).reshape(B, -1, 2, self.num_heads, C // self.num_heads)
        k, v = kv.permute(2, 0, 3, 1, 4)

        attn = (q @ k.transpose(-2, -1)) * self.scale
        attn = self.attn_drop(attn.softmax(dim=-1))

        x = (attn @ v).transpose(1, 2).reshape(B, N, C)
        return self.proj(x)

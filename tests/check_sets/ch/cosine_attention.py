"""Scaled cosine attention, from Swin Transformer V2."""
import math

import torch
from torch import nn
from torch.nn import functional as F


class CosineAttention(nn.Module):
    """Self-attention whose scores are cosine similarities of queries and keys,
    divided by a learned temperature per head:

        Sim(q_i, k_j) = cos(q_i, k_j) / tau + B_ij,   tau >= 0.01

    x: (num_windows * B, N, C); returns the same shape.
    """

    def __init__(self, dim, num_heads=4, window_tokens=16, qkv_bias=True, attn_drop=0.0):
        super().__init__()
        self.num_heads = num_heads
        self.logit_scale = nn.Parameter(torch.log(10 * torch.ones(num_heads, 1, 1)))
        self.bias = nn.Parameter(0.02 * torch.randn(num_heads, window_tokens, window_tokens))
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.attn_drop = nn.Dropout(attn_drop)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B_, N, C = x.shape
        qkv = self.qkv(x).reshape(B_, N, 3, self.num_heads, C // self.num_heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)

        attn = F.normalize(q) @ F.normalize(k).transpose(-2, -1)
        scale = self.logit_scale.clamp(max=math.log(1 / 0.01)).exp()
        attn = attn * scale + self.bias[:, :N, :N]

        attn = self.attn_drop(attn.softmax(dim=-1))
        out = (attn @ v).transpose(1, 2).reshape(B_, N, C)
        return self.proj(out)


class CosineBlock(nn.Module):
    """Residual post-normalisation as in V2."""

    def __init__(self, dim=32, num_heads=4, window_tokens=16):
        super().__init__()
        self.attn = CosineAttention(dim, num_heads, window_tokens)
        self.norm1 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.norm2 = nn.LayerNorm(dim)

    def forward(self, x):
        x = x + self.norm1(self.attn(x))
        return x + self.norm2(self.mlp(x))

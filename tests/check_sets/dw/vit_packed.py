"""ViT encoder block that loads the published checkpoints unchanged.

In those checkpoints `qkv.weight` (3*dim, dim) holds, from the top: the query rows of all heads
(head 0 first), then the key rows of all heads, then the value rows of all heads; likewise
`qkv.bias`.  Everything else is standard: scores / sqrt(dim // heads), softmax over keys, pre-norm
residuals.  x is (B, N, dim), class token first; the output has the same shape.

Attention dropout of rate `drop` is active in train() mode and off in eval() mode; fine-tuning
alternates between the two after each epoch.
"""
import torch
import torch.nn as nn


class PackedAttention(nn.Module):
    def __init__(self, dim, heads, drop=0.0):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3)
        self.attn_drop = nn.Dropout(drop)
        self.proj = nn.Linear(dim, dim)

    def train(self, mode=True):
        super().train(mode)
        if not mode:
            self.attn_drop.p = 0.0
        return self

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, self.heads, 3, C // self.heads)
        q, k, v = qkv.permute(3, 0, 2, 1, 4).unbind(0)
        attn = (q * self.scale) @ k.transpose(-2, -1)
        attn = self.attn_drop(attn.softmax(dim=-1))
        x = (attn @ v).transpose(1, 2).reshape(B, N, C)
        return self.proj(x)


class Block(nn.Module):
    def __init__(self, dim, heads, drop=0.0, mlp_ratio=4):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, eps=1e-6)
        self.attn = PackedAttention(dim, heads, drop)
        self.norm2 = nn.LayerNorm(dim, eps=1e-6)
        self.fc1 = nn.Linear(dim, dim * mlp_ratio)
        self.fc2 = nn.Linear(dim * mlp_ratio, dim)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.fc2(torch.nn.functional.gelu(self.fc1(self.norm2(x))))

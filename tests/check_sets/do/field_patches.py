"""Multispectral ViT encoder for field-boundary detection.

img (B, bands, S, S), S divisible by `patch`.  Patches are embedded, a learned
position is added, then `depth` pre-norm encoder blocks with multi-head
self-attention: head h uses features h*d .. (h+1)*d-1 of the projections and
softmax(Q K^T / sqrt(d)), d = dim / heads.
Returns patch tokens (B, (S/patch)^2, dim).
"""
import torch
from torch import nn


class SelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.scale = dim ** -0.5
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        q = self.query(x).reshape(B, self.heads, N, C // self.heads)
        k = self.key(x).reshape(B, self.heads, N, C // self.heads)
        v = self.value(x).reshape(B, self.heads, N, C // self.heads)
        att = (q @ k.transpose(-2, -1)) * self.scale
        att = att.softmax(dim=-1)
        z = (att @ v).transpose(1, 2).flatten(2)
        return self.proj(z)


class EncoderBlock(nn.Module):
    def __init__(self, dim, heads, mlp_ratio=2):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = SelfAttention(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, mlp_ratio * dim), nn.GELU(), nn.Linear(mlp_ratio * dim, dim))

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class FieldViT(nn.Module):
    def __init__(self, bands=6, size=32, patch=8, dim=24, heads=3, depth=2):
        super().__init__()
        self.patch = nn.Conv2d(bands, dim, patch, stride=patch)
        self.pos = nn.Parameter(0.02 * torch.randn(1, (size // patch) ** 2, dim))
        self.blocks = nn.Sequential(*[EncoderBlock(dim, heads) for _ in range(depth)])
        self.ln = nn.LayerNorm(dim)

    def forward(self, img):
        x = self.patch(img).flatten(2).transpose(1, 2) + self.pos
        return self.ln(self.blocks(x))

"""ViT block for narrow-band nebula images (H-alpha, OIII, SII).

Attention is cosine attention as in Swin V2: queries and keys are L2-normalised
and the similarity is multiplied by a learned per-head temperature
exp(log_scale), clamped at 100. There is no 1/sqrt(d) on top of it.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class CosineAttention(nn.Module):
    MAX_LOG = math.log(100.0)

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, dim * 3, bias=False)
        self.log_scale = nn.Parameter(torch.full((heads, 1, 1), math.log(10.0)))
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        sim = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        sim = sim * self.log_scale.clamp(max=self.MAX_LOG).exp()
        out = sim.softmax(dim=-1) @ v
        return self.proj(out.transpose(1, 2).reshape(B, N, C))


class NebulaBlock(nn.Module):
    """Residual post-norm block: x + norm(f(x)), again like Swin V2."""

    def __init__(self, dim, heads, mlp_ratio=2):
        super().__init__()
        self.attn = CosineAttention(dim, heads)
        self.norm1 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, dim * mlp_ratio), nn.GELU(), nn.Linear(dim * mlp_ratio, dim))
        self.norm2 = nn.LayerNorm(dim)

    def forward(self, x):
        x = x + self.norm1(self.attn(x))
        return x + self.norm2(self.mlp(x))


class NebulaNet(nn.Module):
    def __init__(self, bands=3, size=32, patch=8, dim=48, depth=2, heads=4, classes=5):
        super().__init__()
        self.patchify = nn.Conv2d(bands, dim, patch, stride=patch)
        self.pos = nn.Parameter(0.02 * torch.randn(1, (size // patch) ** 2, dim))
        self.blocks = nn.ModuleList(NebulaBlock(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, images):
        """images: (B, bands, size, size) -> logits (B, classes)"""
        x = self.patchify(images).flatten(2).transpose(1, 2) + self.pos
        for blk in self.blocks:
            x = blk(x)
        return self.head(self.norm(x).mean(dim=1))

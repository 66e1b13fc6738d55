"""Lichen species on gravestones: a small ViT with Swin-V2 style cosine attention.

    A = softmax( cos(q, k) * tau + B ),   tau = exp(min(t, log 100)) per head

cos is the cosine between the query vector and the key vector of one head, so the
logits never leave [-tau, tau] and large batches train in half precision.
"""
import math
from functools import partial

import torch
import torch.nn as nn
import torch.nn.functional as F


class LogCPB(nn.Module):
    """Continuous relative position bias: an MLP on log-spaced coordinates."""

    def __init__(self, grid, heads, hidden=32):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(2, hidden), nn.ReLU(), nn.Linear(hidden, heads, bias=False))
        r = torch.arange(grid, dtype=torch.float32)
        pts = torch.stack(torch.meshgrid(r, r, indexing="ij"), -1).reshape(-1, 2)
        rel = (pts[:, None] - pts[None, :]) / max(grid - 1, 1) * 8
        self.register_buffer("rel", rel.sign() * (1 + rel.abs()).log2() / 3, persistent=False)

    def forward(self):
        return 16 * torch.sigmoid(self.mlp(self.rel)).permute(2, 0, 1)


class CosineAttention(nn.Module):
    def __init__(self, dim, heads, grid):
        super().__init__()
        self.heads = heads
        self.t = nn.Parameter(torch.full((heads, 1, 1), math.log(10.0)))
        self.cpb = LogCPB(grid, heads)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.q_bias, self.v_bias = nn.Parameter(torch.zeros(dim)), nn.Parameter(torch.zeros(dim))
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        """x: [B, N, dim] with N = grid * grid tokens in row-major order."""
        B, N, C = x.shape
        bias = torch.cat([self.q_bias, torch.zeros_like(self.q_bias), self.v_bias])
        qkv = F.linear(x, self.qkv.weight, bias).view(B, N, 3, self.heads, C // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        q, k = F.normalize(q), F.normalize(k)
        tau = self.t.clamp(max=math.log(100.0)).exp()
        attn = q @ k.transpose(-2, -1) * tau + self.cpb()
        attn = attn.softmax(dim=-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(B, N, C))


class ResPostNormBlock(nn.Module):
    """V2 order: the norm comes after the branch."""

    def __init__(self, dim, heads, grid, norm=partial(nn.LayerNorm, eps=1e-6)):
        super().__init__()
        self.attn, self.norm1, self.norm2 = CosineAttention(dim, heads, grid), norm(dim), norm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = x + self.norm1(self.attn(x))
        return x + self.norm2(self.mlp(x))


class LichenNet(nn.Module):
    def __init__(self, species=31, size=32, patch=8, dim=48, heads=4, depth=2):
        super().__init__()
        self.stem = nn.Conv2d(3, dim, patch, patch)
        self.blocks = nn.Sequential(*[ResPostNormBlock(dim, heads, size // patch) for _ in range(depth)])
        self.head = nn.Linear(dim, species)

    def forward(self, img):
        x = self.stem(img).flatten(2).transpose(1, 2)
        return self.head(self.blocks(x).mean(1))


if __name__ == "__main__":
    print(LichenNet()(torch.randn(2, 3, 32, 32)).shape)

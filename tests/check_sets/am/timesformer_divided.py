"""Divided space-time attention for short clips, after TimeSformer (no class token)."""
import torch
from torch import nn


class Attn(nn.Module):
    def __init__(self, dim, heads, drop=0.0):
        super().__init__()
        self.h = heads
        self.scale = (dim // heads) ** -0.5
        self.to_qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim)
        self.drop = nn.Dropout(drop)

    def forward(self, x, key_ok=None):
        """x (N, L, C); key_ok (N, L) bool, True = may be looked at"""
        N, L, C = x.shape
        q, k, v = self.to_qkv(x).view(N, L, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        a = (q * self.scale) @ k.mT
        if key_ok is not None:
            a = a.masked_fill(~key_ok[:, None, None], torch.finfo(a.dtype).min)
        a = self.drop(a.softmax(-1))
        return self.out((a @ v).transpose(1, 2).reshape(N, L, C))


class DividedBlock(nn.Module):
    """x (B, T, S, C): first every patch over time, then every frame over space."""

    def __init__(self, dim, heads, mlp=4):
        super().__init__()
        self.nt, self.ns, self.nm = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.time = Attn(dim, heads)
        self.space = Attn(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, dim * mlp), nn.GELU(), nn.Linear(dim * mlp, dim))

    def forward(self, x, frame_ok=None):
        B, T, S, C = x.shape
        y = self.nt(x).transpose(1, 2).reshape(B * S, T, C)
        ok = None if frame_ok is None else frame_ok.repeat_interleave(S, 0)
        y = self.time(y, ok).view(B, S, T, C).transpose(1, 2)
        x = x + y
        y = self.ns(x).reshape(B * T, S, C)
        x = x + self.space(y).view(B, T, S, C)
        return x + self.mlp(self.nm(x))


class ClipEncoder(nn.Module):
    def __init__(self, frames=8, size=32, patch=8, dim=48, depth=2, heads=4, classes=10):
        super().__init__()
        self.stem = nn.Conv2d(3, dim, patch, patch)
        n = (size // patch) ** 2
        self.pos_s = nn.Parameter(torch.randn(1, 1, n, dim) * 0.02)
        self.pos_t = nn.Parameter(torch.randn(1, frames, 1, dim) * 0.02)
        self.blocks = nn.ModuleList(DividedBlock(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.cls = nn.Linear(dim, classes)

    def forward(self, clip, frame_ok=None):
        """clip (B, T, 3, H, W); frame_ok (B, T): False for frames that were padded."""
        B, T = clip.shape[:2]
        x = self.stem(clip.flatten(0, 1)).flatten(2).mT
        x = x.reshape(B, T, *x.shape[1:]) + self.pos_s + self.pos_t[:, :T]
        for b in self.blocks:
            x = b(x, frame_ok)
        x = self.norm(x).mean(2)
        if frame_ok is None:
            return self.cls(x.mean(1))
        w = frame_ok.to(x.dtype)[..., None]
        return self.cls((x * w).sum(1) / w.sum(1).clamp(min=1))

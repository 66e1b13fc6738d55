"""Galaxy morphology with a SwinV2-like encoder: scaled cosine attention + continuous position bias."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class CosineAttention(nn.Module):
    """softmax(cos(q, k) * tau + B) v as in Swin Transformer V2, tau per head, learned, at most 100."""

    def __init__(self, dim, heads, window):
        super().__init__()
        self.heads, self.window = heads, window
        self.logit_scale = nn.Parameter(torch.log(10 * torch.ones(heads, 1, 1)))
        self.cpb = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, heads, bias=False))
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.register_buffer("coords", self._log_coords(window), persistent=False)

    @staticmethod
    def _log_coords(w):
        p = torch.stack(torch.meshgrid(torch.arange(w), torch.arange(w), indexing="ij"), -1).view(-1, 2)
        rel = (p[:, None] - p[None]).to(torch.get_default_dtype()) * 8 / max(w - 1, 1)
        return rel.sign() * torch.log2(rel.abs() + 1) / 3

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = self.qkv(x).view(B, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        attn = F.normalize(q) @ F.normalize(k).transpose(-2, -1)
        attn = attn * self.logit_scale.clamp(max=math.log(100.0)).exp()
        bias = 16 * torch.sigmoid(self.cpb(self.coords)).permute(2, 0, 1)
        attn = (attn + bias).softmax(dim=-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(B, N, C))


class Block(nn.Module):
    def __init__(self, dim, heads, window):
        super().__init__()
        self.w = window
        self.attn = CosineAttention(dim, heads, window)
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def windows(self, x):
        B, H, W, C = x.shape
        w = self.w
        return x.view(B, H // w, w, W // w, w, C).transpose(2, 3).reshape(-1, w * w, C)

    def back(self, y, shape):
        B, H, W, C = shape
        w = self.w
        return y.view(B, H // w, W // w, w, w, C).transpose(2, 3).reshape(B, H, W, C)

    def forward(self, x):
        # res-post-norm
        x = x + self.n1(self.back(self.attn(self.windows(x)), x.shape))
        return x + self.n2(self.mlp(x))


class Merge(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.red, self.norm = nn.Linear(4 * dim, 2 * dim, bias=False), nn.LayerNorm(2 * dim)

    def forward(self, x):
        B, H, W, C = x.shape
        x = x.view(B, H // 2, 2, W // 2, 2, C).permute(0, 1, 3, 4, 2, 5).reshape(B, H // 2, W // 2, 4 * C)
        return self.norm(self.red(x))


class GalaxyNet(nn.Module):
    def __init__(self, classes=10, dim=32, heads=(2, 4), window=4, patch=4):
        super().__init__()
        self.stem = nn.Conv2d(3, dim, patch, patch)
        self.s1 = nn.Sequential(*[Block(dim, heads[0], window) for _ in range(2)])
        self.merge = Merge(dim)
        self.s2 = nn.Sequential(*[Block(2 * dim, heads[1], window) for _ in range(2)])
        self.head = nn.Linear(2 * dim, classes)

    def forward(self, img):
        """img [B, 3, 64, 64] (asinh-stretched)"""
        x = self.stem(img).permute(0, 2, 3, 1)
        x = self.s2(self.merge(self.s1(x)))
        return self.head(x.mean((1, 2)))


def dihedral(img):
    """the eight orientations for test-time averaging"""
    rots = [img.rot90(i, (-2, -1)) for i in range(4)]
    return rots + [r.flip(-1) for r in rots]

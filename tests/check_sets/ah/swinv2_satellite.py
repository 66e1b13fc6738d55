"""Swin V2 window attention for Sentinel-2 land cover (scaled cosine attention, log-spaced bias).

sim(q_i, k_j) = cos(q_i, k_j) / tau + B_ij, the cosine is between the two feature vectors of a head,
tau is learned per head and not below 0.01.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class CosineWindowAttention(nn.Module):
    def __init__(self, dim, window, num_heads, qkv_bias=True):
        super().__init__()
        self.num_heads, self.window = num_heads, window
        self.logit_scale = nn.Parameter(torch.log(10 * torch.ones(num_heads, 1, 1)))
        self.cpb_mlp = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, num_heads, bias=False))
        r = torch.arange(-(window - 1), window, dtype=torch.float32)
        table = torch.stack(torch.meshgrid(r, r, indexing="ij"), -1) / max(window - 1, 1) * 8
        table = torch.sign(table) * torch.log2(table.abs() + 1.0) / math.log2(8)
        self.register_buffer("table", table.view(-1, 2), persistent=False)
        g = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        rel = g[:, :, None] - g[:, None, :] + window - 1
        self.register_buffer("index", rel[0] * (2 * window - 1) + rel[1], persistent=False)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.q_bias = nn.Parameter(torch.zeros(dim)) if qkv_bias else None
        self.v_bias = nn.Parameter(torch.zeros(dim)) if qkv_bias else None
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        """x [nW*B, N, C]; mask additive [nW, N, N] or None"""
        B_, N, C = x.shape
        bias = None
        if self.q_bias is not None:
            bias = torch.cat([self.q_bias, torch.zeros_like(self.v_bias), self.v_bias])
        qkv = F.linear(x, self.qkv.weight, bias).view(B_, N, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        attn = F.normalize(q) @ F.normalize(k).transpose(-2, -1)
        attn = attn * self.logit_scale.clamp(max=math.log(100.0)).exp()
        rel = 16 * torch.sigmoid(self.cpb_mlp(self.table))[self.index.view(-1)]
        attn = attn + rel.view(N, N, -1).permute(2, 0, 1)
        if mask is not None:
            nW = mask.shape[0]
            attn = (attn.view(-1, nW, self.num_heads, N, N) + mask[None, :, None]).view_as(attn)
        attn = attn.softmax(-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(B_, N, C))


class Windows(nn.Module):
    """run a module on non-overlapping windows of a [B, H, W, C] map (sizes divisible by the window)"""

    def __init__(self, inner, window):
        super().__init__()
        self.inner, self.w = inner, window

    def forward(self, x):
        B, H, W, C = x.shape
        w = self.w
        t = x.view(B, H // w, w, W // w, w, C).permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, C)
        t = self.inner(t).view(B, H // w, W // w, w, w, C)
        return t.permute(0, 1, 3, 2, 4, 5).reshape(B, H, W, C)


class ResPostNormBlock(nn.Module):
    def __init__(self, dim, heads, window):
        super().__init__()
        self.att = Windows(CosineWindowAttention(dim, window, heads), window)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, x):
        x = x + self.n1(self.att(x))
        return x + self.n2(self.mlp(x))


class LandCoverNet(nn.Module):
    def __init__(self, bands=13, dim=48, heads=3, window=4, depth=2, classes=11):
        super().__init__()
        self.stem = nn.Conv2d(bands, dim, 2, 2)
        self.body = nn.Sequential(*[ResPostNormBlock(dim, heads, window) for _ in range(depth)])
        self.up = nn.ConvTranspose2d(dim, classes, 2, 2)

    def forward(self, x):
        y = self.body(self.stem(x).permute(0, 2, 3, 1))
        return self.up(y.permute(0, 3, 1, 2))

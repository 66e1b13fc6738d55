"""Land-use backbone: windowed attention on satellite tiles (Swin V2 style)."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def to_windows(x, ws):
    """[B, H, W, C] -> [B * nW, ws * ws, C]"""
    b, h, w, c = x.shape
    x = x.view(b, h // ws, ws, w // ws, ws, c)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, ws * ws, c)


def from_windows(win, ws, h, w):
    b = win.shape[0] // ((h // ws) * (w // ws))
    x = win.view(b, h // ws, w // ws, ws, ws, -1)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, -1)


def shift_regions(h, w, ws, shift):
    """bool [nW, N, N]; True = the two pixels were not neighbours before the roll"""
    img = torch.zeros(1, h, w, 1)
    n = 0
    for hs in (slice(0, -ws), slice(-ws, -shift), slice(-shift, None)):
        for wsl in (slice(0, -ws), slice(-ws, -shift), slice(-shift, None)):
            img[:, hs, wsl] = n
            n += 1
    reg = to_windows(img, ws).squeeze(-1)
    return reg[:, None, :] != reg[:, :, None]


class CosineWindowAttention(nn.Module):
    """Similarity = cosine(q_i, k_j) / tau + B_ij, tau learned per head and kept above 0.01.

    The cosine is the scalar product of the query and the key after both were brought to
    length one. B comes from a small MLP on log-spaced offsets.
    """

    def __init__(self, dim, window, heads):
        super().__init__()
        self.heads, self.window = heads, window
        self.logit_scale = nn.Parameter(torch.log(10 * torch.ones(heads, 1, 1)))
        self.cpb = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, heads, bias=False))
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.q_bias = nn.Parameter(torch.zeros(dim))
        self.v_bias = nn.Parameter(torch.zeros(dim))
        self.proj = nn.Linear(dim, dim)

        r = torch.arange(-(window - 1), window, dtype=torch.float32)
        table = torch.stack(torch.meshgrid(r, r, indexing="ij"), dim=-1)
        table = table / max(window - 1, 1) * 8
        table = torch.sign(table) * torch.log2(table.abs() + 1.0) / math.log2(8)
        self.register_buffer("offsets", table.view(-1, 2), persistent=False)
        yx = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        rel = (yx[:, :, None] - yx[:, None, :]) + window - 1
        self.register_buffer("index", rel[0] * (2 * window - 1) + rel[1], persistent=False)

    def forward(self, x, blocked=None):
        """x [B * nW, N, C], blocked [nW, N, N] bool or None"""
        bw, n, c = x.shape
        bias = torch.cat([self.q_bias, torch.zeros_like(self.q_bias), self.v_bias])
        qkv = F.linear(x, self.qkv.weight, bias).view(bw, n, 3, self.heads, c // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        q, k = F.normalize(q, dim=-2), F.normalize(k, dim=-2)
        sim = q @ k.transpose(-2, -1)
        sim = sim * self.logit_scale.clamp(max=math.log(1.0 / 0.01)).exp()
        b = 16 * torch.sigmoid(self.cpb(self.offsets))[self.index.view(-1)]
        sim = sim + b.view(n, n, self.heads).permute(2, 0, 1)
        if blocked is not None:
            nw = blocked.shape[0]
            sim = sim.view(bw // nw, nw, self.heads, n, n).masked_fill(blocked[:, None], float("-inf"))
            sim = sim.view(bw, self.heads, n, n)
        y = (sim.softmax(dim=-1) @ v).transpose(1, 2).reshape(bw, n, c)
        return self.proj(y)


class WindowBlock(nn.Module):
    def __init__(self, dim, heads, window, shift):
        super().__init__()
        self.ws, self.shift = window, shift
        self.attn = CosineWindowAttention(dim, window, heads)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        b, h, w, c = x.shape
        y, blocked = x, None
        if self.shift:
            y = torch.roll(y, (-self.shift, -self.shift), dims=(1, 2))
            blocked = shift_regions(h, w, self.ws, self.shift).to(x.device)
        y = from_windows(self.attn(to_windows(y, self.ws), blocked), self.ws, h, w)
        if self.shift:
            y = torch.roll(y, (self.shift, self.shift), dims=(1, 2))
        x = x + self.norm1(y)
        return x + self.norm2(self.mlp(x))


class LandUseNet(nn.Module):
    def __init__(self, bands=4, classes=9, dim=32, heads=4, window=4, depth=2, patch=4):
        super().__init__()
        self.stem = nn.Conv2d(bands, dim, patch, patch)
        self.blocks = nn.ModuleList(WindowBlock(dim, heads, window, 0 if i % 2 == 0 else window // 2) for i in range(depth))
        self.head = nn.Conv2d(dim, classes, 1)
        self.patch = patch

    def forward(self, img):
        x = self.stem(img).permute(0, 2, 3, 1)
        for blk in self.blocks:
            x = blk(x)
        y = self.head(x.permute(0, 3, 1, 2))
        return F.interpolate(y, scale_factor=self.patch, mode="bilinear", align_corners=False)

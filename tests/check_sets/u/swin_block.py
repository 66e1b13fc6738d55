import torch
from torch import nn


def to_windows(x, w):
    B, H, W, C = x.shape
    x = x.view(B, H // w, w, W // w, w, C).permute(0, 1, 3, 2, 4, 5)
    return x.reshape(-1, w * w, C)


def from_windows(x, w, H, W):
    B = x.shape[0] // (H * W // w // w)
    x = x.view(B, H // w, W // w, w, w, -1).permute(0, 1, 3, 2, 4, 5)
    return x.reshape(B, H, W, -1)


class WindowAttention(nn.Module):
    def __init__(self, dim, window, heads):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)
        self.table = nn.Parameter(torch.randn((2 * window - 1) ** 2, heads) * 0.02)
        yx = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        rel = yx[:, :, None] - yx[:, None, :] + window - 1
        self.register_buffer("index", rel[0] * (2 * window - 1) + rel[1])

    def forward(self, x, mask=None):
        Bw, N, C = x.shape
        q, k, v = self.qkv(x).reshape(Bw, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        attn = (q * self.scale) @ k.transpose(-2, -1)
        attn = attn + self.table[self.index].permute(2, 0, 1)
        if mask is not None:
            nW = mask.shape[0]
            attn = attn.view(Bw // nW, nW, self.heads, N, N) + mask[None, :, None]
            attn = attn.view(Bw, self.heads, N, N)
        attn = attn.softmax(-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(Bw, N, C))


class SwinBlock(nn.Module):
    def __init__(self, dim=24, resolution=(8, 8), heads=3, window=4, shift=2, mlp=4):
        super().__init__()
        self.res, self.w, self.s = resolution, window, shift
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = WindowAttention(dim, window, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, mlp * dim), nn.GELU(), nn.Linear(mlp * dim, dim))
        mask = None
        if shift:
            img = torch.zeros(1, *resolution, 1)
            cuts = (slice(0, -window), slice(-window, -shift), slice(-shift, None))
            for n, (a, b) in enumerate((a, b) for a in cuts for b in cuts):
                img[:, a, b] = n
            ids = to_windows(img, window).squeeze(-1)
            mask = (ids[:, None, :] != ids[:, :, None]).float() * -100.0
        self.register_buffer("mask", mask)

    def forward(self, x):
        H, W = self.res
        B, L, C = x.shape
        y = self.norm1(x).view(B, H, W, C)
        if self.s:
            y = torch.roll(y, (-self.s, -self.s), (1, 2))
        y = from_windows(self.attn(to_windows(y, self.w), self.mask), self.w, H, W)
        if self.s:
            y = torch.roll(y, (self.s, self.s), (1, 2))
        x = x + y.reshape(B, L, C)
        return x + self.mlp(self.norm2(x))

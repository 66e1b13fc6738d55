"""Patchwork quilt restoration: shifted-window blocks (Swin v1) on fabric patches.

Odd blocks roll the quilt by half a window; patches that come from different
edges of the quilt after the roll must not see each other.
"""
import torch
import torch.nn as nn


def cut(x, w):
    """[B, H, W, C] -> [B*n, w*w, C], windows in reading order"""
    B, H, W, C = x.shape
    return x.view(B, H // w, w, W // w, w, C).permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, C)


def sew(win, w, H, W):
    C = win.size(-1)
    return win.view(-1, H // w, W // w, w, w, C).permute(0, 1, 3, 2, 4, 5).reshape(-1, H, W, C)


def relative_index(w):
    yx = torch.stack(torch.meshgrid(torch.arange(w), torch.arange(w), indexing="ij")).flatten(1)
    rel = yx[:, :, None] - yx[:, None, :] + (w - 1)
    return rel[0] * (2 * w - 1) + rel[1]


def seam_mask(H, W, w, shift):
    """[n, w*w, w*w] additive, 0 or -inf"""
    region = torch.zeros(1, H, W, 1)
    spans = (slice(0, -w), slice(-w, -shift), slice(-shift, None))
    n = 0
    for a in spans:
        for b in spans:
            region[:, a, b] = n
            n += 1
    r = cut(region, w).squeeze(-1)
    differ = r[:, None, :] != r[:, :, None]
    return torch.zeros(differ.shape).masked_fill(differ, float("-inf"))


class QuiltWindowAttention(nn.Module):
    """Attention in (shifted) windows of an H x W quilt. shift=0: plain windows.

    x [B, H, W, C] -> [B, H, W, C]; H and W are multiples of `window`.
    """

    def __init__(self, C, size, heads=4, window=4, shift=0):
        super().__init__()
        self.heads, self.w, self.shift, self.size = heads, window, shift, size
        self.scale = (C // heads) ** -0.5
        self.qkv = nn.Linear(C, 3 * C)
        self.proj = nn.Linear(C, C)
        self.table = nn.Parameter(torch.randn((2 * window - 1) ** 2, heads) * 0.02)
        self.register_buffer("index", relative_index(window), persistent=False)
        self.register_buffer("seams", seam_mask(*size, window, shift) if shift else None, persistent=False)

    def forward(self, x):
        B, H, W, C = x.shape
        if self.shift:
            x = torch.roll(x, (-self.shift, -self.shift), (1, 2))
        win = cut(x, self.w)
        Bn, N, _ = win.shape
        q, k, v = self.qkv(win).view(Bn, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        a = (q * self.scale) @ k.transpose(-2, -1)
        a = a + self.table[self.index].permute(2, 0, 1)
        if self.seams is not None:
            n = self.seams.size(0)
            a = (a.view(B, n, self.heads, N, N) + self.seams[None, :, None]).view(Bn, self.heads, N, N)
        a = a.softmax(-1)
        y = self.proj((a @ v).transpose(1, 2).reshape(Bn, N, C))
        y = sew(y, self.w, H, W)
        if self.shift:
            y = torch.roll(y, (self.shift, self.shift), (1, 2))
        return y


class QuiltNet(nn.Module):
    def __init__(self, size=(16, 24), C=32, blocks=4):
        super().__init__()
        self.patch = nn.Conv2d(3, C, 4, 4)
        grid = (size[0] // 4, size[1] // 4)
        win = 2
        self.att = nn.ModuleList(QuiltWindowAttention(C, grid, 4, win, (i % 2) * win // 2) for i in range(blocks))
        self.norm = nn.ModuleList(nn.LayerNorm(C) for _ in range(blocks))
        self.back = nn.ConvTranspose2d(C, 3, 4, 4)

    def forward(self, photo):
        h = self.patch(photo).permute(0, 2, 3, 1)
        for a, n in zip(self.att, self.norm):
            h = h + a(n(h))
        return photo + self.back(h.permute(0, 3, 1, 2))

"""Sea-ice floes in SAR scenes: shifted-window block (Liu et al. 2021), channels last."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def windows(x, w):
    """(B, H, W, C) -> (B, nH*nW, w*w, C)"""
    B, H, W, C = x.shape
    x = x.view(B, H // w, w, W // w, w, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(B, -1, w * w, C)


def unwindow(y, w, H, W):
    B, _, _, C = y.shape
    y = y.view(B, H // w, W // w, w, w, C)
    return y.permute(0, 1, 3, 2, 4, 5).reshape(B, H, W, C)


def offsets(w):
    """index of the bias table for each pair of cells of a window"""
    c = torch.stack(torch.meshgrid(torch.arange(w), torch.arange(w), indexing="ij"), -1).view(-1, 2)
    r = c[:, None] - c[None] + (w - 1)
    return r[..., 0] * (2 * w - 1) + r[..., 1]


def regions(H, W, w, s):
    """Label of the contiguous region that each pixel of the rolled image came from."""
    row = torch.zeros(H, dtype=torch.long)
    col = torch.zeros(W, dtype=torch.long)
    if s:
        row[-w:], row[-s:] = 1, 2
        col[-w:], col[-s:] = 1, 2
    return row[:, None] * 3 + col[None]


class ShiftedWindow(nn.Module):
    """Pixels attend to the pixels of their window; after the cyclic roll, pixels that
    are no neighbours in the scene do not see each other."""

    def __init__(self, dim, heads, w=4, shift=0):
        super().__init__()
        assert 0 <= shift < w
        self.dim, self.heads, self.w, self.s = dim, heads, w, shift
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.table = nn.Parameter(torch.empty((2 * w - 1) ** 2, heads))
        nn.init.trunc_normal_(self.table, std=0.02)
        self.register_buffer("rel", offsets(w), persistent=False)

    def forward(self, x):
        B, H, W, C = x.shape
        if self.s:
            x = torch.roll(x, (-self.s, -self.s), (1, 2))
        t = windows(x, self.w)
        n = t.shape[2]
        q, k, v = self.qkv(t).view(B, -1, n, 3, self.heads, C // self.heads).permute(3, 0, 1, 4, 2, 5)
        bias = self.table[self.rel].permute(2, 0, 1)
        if self.s:
            lab = windows(regions(H, W, self.w, self.s)[None, ..., None].to(x.device), self.w)[0, ..., 0]
            apart = lab[:, :, None] != lab[:, None, :]
            bias = bias[None].masked_fill(apart[:, None], float("-inf"))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.expand(B, t.shape[1], -1, -1, -1))
        y = unwindow(y.transpose(2, 3).flatten(3), self.w, H, W)
        if self.s:
            y = torch.roll(y, (self.s, self.s), (1, 2))
        return self.proj(y)


class FloeSegmenter(nn.Module):
    def __init__(self, bands=2, dim=32, heads=4, w=4):
        super().__init__()
        self.stem = nn.Conv2d(bands, dim, 2, stride=2)
        self.blocks = nn.ModuleList(ShiftedWindow(dim, heads, w, s) for s in (0, w // 2))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2))
        self.up = nn.ConvTranspose2d(dim, 3, 2, stride=2)

    def forward(self, scene):
        h = self.stem(scene).permute(0, 2, 3, 1)
        for b, n in zip(self.blocks, self.norms):
            h = h + b(n(h))
        return self.up(h.permute(0, 3, 1, 2))

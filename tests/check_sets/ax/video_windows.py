"""3-D shifted window attention for clips, layout [B, T, H, W, C].

Every dimension must be a multiple of the window.  With a shift the clip is rolled,
so that a window at the border may hold tokens that are not neighbours in the
original clip; those do not see each other.
"""
from functools import lru_cache
from itertools import product

import torch
import torch.nn as nn


def to_windows(x, win):
    """[B, T, H, W, C] -> [B, n_windows, tokens per window, C]"""
    b, t, h, w, c = x.shape
    a, p, q = win
    x = x.view(b, t // a, a, h // p, p, w // q, q, c)
    return x.permute(0, 1, 3, 5, 2, 4, 6, 7).reshape(b, -1, a * p * q, c)


def from_windows(x, win, size):
    a, p, q = win
    t, h, w = size
    b, c = x.size(0), x.size(-1)
    x = x.view(b, t // a, h // p, w // q, a, p, q, c)
    return x.permute(0, 1, 4, 2, 5, 3, 6, 7).reshape(b, t, h, w, c)


@lru_cache(maxsize=32)
def region_mask(size, win, shift):
    """bool [n_windows, L, L], True = the two tokens belong to the same region"""
    label = torch.zeros(1, *size, 1)
    cuts = [(slice(0, n - w), slice(n - w, n - s), slice(n - s, n)) if s else (slice(0, n),)
            for n, w, s in zip(size, win, shift)]
    for i, (a, b, c) in enumerate(product(*cuts)):
        label[:, a, b, c] = i
    flat = to_windows(label, win)[0, :, :, 0]
    return flat[:, :, None] == flat[:, None, :]


class WindowAttention3D(nn.Module):
    def __init__(self, dim, heads, window=(2, 4, 4), shift=(0, 0, 0), drop=0.0):
        super().__init__()
        self.heads, self.window, self.shift = heads, tuple(window), tuple(shift)
        self.scale = (dim // heads) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)
        self.drop = nn.Dropout(drop)
        a, p, q = self.window
        self.bias_table = nn.Parameter(torch.zeros((2 * a - 1) * (2 * p - 1) * (2 * q - 1), heads))
        nn.init.trunc_normal_(self.bias_table, std=0.02)
        grid = torch.stack(torch.meshgrid(*(torch.arange(n) for n in self.window), indexing="ij")).flatten(1)
        rel = grid[:, :, None] - grid[:, None, :] + torch.tensor([a - 1, p - 1, q - 1])[:, None, None]
        index = (rel[0] * (2 * p - 1) + rel[1]) * (2 * q - 1) + rel[2]
        self.register_buffer("bias_index", index, persistent=False)

    def forward(self, x):
        size, c = x.shape[1:4], x.size(-1)
        moved = any(self.shift)
        if moved:
            x = torch.roll(x, [-s for s in self.shift], dims=(1, 2, 3))
        win = to_windows(x, self.window)
        b, n, l, _ = win.shape
        q, k, v = self.qkv(win).view(b, n, l, 3, self.heads, -1).permute(3, 0, 1, 4, 2, 5)
        att = (q * self.scale) @ k.transpose(-1, -2)                         # [b, n, heads, l, l]
        att = att + self.bias_table[self.bias_index].permute(2, 0, 1)
        if moved:
            same = region_mask(tuple(size), self.window, self.shift).to(x.device)
            att = att.masked_fill(~same[None, :, None], float("-inf"))
        att = self.drop(att.softmax(dim=-1))
        out = (att @ v).transpose(2, 3).reshape(b, n, l, c)
        out = from_windows(self.proj(out), self.window, size)
        return torch.roll(out, self.shift, dims=(1, 2, 3)) if moved else out


class ClipBlock(nn.Module):
    def __init__(self, dim, heads, window=(2, 4, 4), shifted=False):
        super().__init__()
        shift = tuple(w // 2 for w in window) if shifted else (0, 0, 0)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = WindowAttention3D(dim, heads, window, shift)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class ClipEncoder(nn.Module):
    def __init__(self, dim=48, depth=4, heads=3, patch=(2, 4, 4), classes=10):
        super().__init__()
        self.embed = nn.Conv3d(3, dim, patch, stride=patch)
        self.blocks = nn.ModuleList(ClipBlock(dim, heads, shifted=bool(i % 2)) for i in range(depth))
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, classes))

    def forward(self, clip):
        x = self.embed(clip).permute(0, 2, 3, 4, 1)
        for blk in self.blocks:
            x = blk(x)
        return self.head(x.mean((1, 2, 3)))

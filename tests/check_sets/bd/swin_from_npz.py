"""Satellite tiles: one shifted-window attention stage, PyTorch, weights from a NumPy archive."""
import numpy as np
import torch
from torch import nn


def window_index(w):
    """Relative-position index as NumPy array [w*w, w*w] into a (2w-1)^2 table."""
    yx = np.stack(np.meshgrid(np.arange(w), np.arange(w), indexing="ij")).reshape(2, -1)
    rel = yx[:, :, None] - yx[:, None, :] + (w - 1)
    return rel[0] * (2 * w - 1) + rel[1]


def region_map(h, w, win, shift):
    """NumPy map of region numbers after the cyclic shift; windows must not mix regions."""
    reg = np.zeros((h, w), dtype=np.int64)
    cuts = (slice(0, -win), slice(-win, -shift), slice(-shift, None))
    n = 0
    for a in cuts:
        for b in cuts:
            reg[a, b] = n
            n += 1
    return reg


def partition(x, win):
    """[B, H, W, C] -> [B * nW, win*win, C]; windows of one image are consecutive."""
    B, H, W, C = x.shape
    x = x.view(B, H // win, win, W // win, win, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, win * win, C)


def unpartition(x, win, B, H, W):
    x = x.view(B, H // win, W // win, win, win, -1)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(B, H, W, -1)


class ShiftedWindowAttention(nn.Module):
    def __init__(self, dim, heads, win=4, shift=0):
        super().__init__()
        self.heads, self.win, self.shift = heads, win, shift
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.table = nn.Parameter(torch.zeros((2 * win - 1) ** 2, heads))
        self.register_buffer("idx", torch.from_numpy(window_index(win)))

    def load_npz(self, arrays):
        """arrays: mapping with qkv/kernel [dim, 3*dim], qkv/bias, proj/kernel, proj/bias, table (JAX layout)."""
        t = lambda n: torch.from_numpy(np.ascontiguousarray(arrays[n]))
        with torch.no_grad():
            self.qkv.weight.copy_(t("qkv/kernel").T)
            self.qkv.bias.copy_(t("qkv/bias"))
            self.proj.weight.copy_(t("proj/kernel").T)
            self.proj.bias.copy_(t("proj/bias"))
            self.table.copy_(t("table"))

    def forward(self, x):
        """x [B, H, W, C] with H and W multiples of the window."""
        B, H, W, C = x.shape
        if self.shift:
            x = torch.roll(x, (-self.shift, -self.shift), (1, 2))
        t = partition(x, self.win)
        n, L, _ = t.shape
        q, k, v = self.qkv(t).view(n, L, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        a = q @ k.transpose(-1, -2) * q.size(-1) ** -0.5
        a = a + self.table[self.idx].permute(2, 0, 1)
        if self.shift:
            reg = torch.from_numpy(region_map(H, W, self.win, self.shift)).view(1, H, W, 1)
            reg = partition(reg, self.win).squeeze(-1).to(x.device)
            other = reg[:, :, None] != reg[:, None, :]
            a = a.view(B, -1, self.heads, L, L).masked_fill(other[None, :, None], float("-inf")).flatten(0, 1)
        y = (a.softmax(-1) @ v).transpose(1, 2).reshape(n, L, C)
        y = unpartition(self.proj(y), self.win, B, H, W)
        if self.shift:
            y = torch.roll(y, (self.shift, self.shift), (1, 2))
        return y


class Stage(nn.Module):
    def __init__(self, dim=32, heads=4, win=4):
        super().__init__()
        self.a = ShiftedWindowAttention(dim, heads, win, 0)
        self.b = ShiftedWindowAttention(dim, heads, win, win // 2)
        self.na, self.nb = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, x):
        x = x + self.a(self.na(x))
        return x + self.b(self.nb(x))

"""Concrete-crack segmentation, shifted-window block (drone images of bridges).

Swin-like. Blocks alternate between regular windows and windows that are shifted
by half their size; the map is rolled so that the shifted windows become regular
ones, attention is computed inside each window, and the map goes back to its
place. Pixels that become neighbours only through the cyclic roll must not see
each other (region mask).
"""
from typing import Optional, Tuple

import torch
import torch.nn as nn
from torch import Tensor


def to_windows(x: Tensor, w: int) -> Tensor:
    """(B, H, W, C) -> (B * nW, w*w, C)"""
    B, H, W, C = x.shape
    x = x.view(B, H // w, w, W // w, w, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, C)


def from_windows(t: Tensor, w: int, H: int, W: int) -> Tensor:
    B = t.shape[0] // ((H // w) * (W // w))
    t = t.view(B, H // w, W // w, w, w, -1)
    return t.permute(0, 1, 3, 2, 4, 5).reshape(B, H, W, -1)


def region_mask(H: int, W: int, w: int, s: int) -> Tensor:
    """(nW, w*w, w*w) bool, True = both pixels are of the same region."""
    ids = torch.zeros(1, H, W, 1)
    cuts = (slice(0, -w), slice(-w, -s), slice(-s, None))
    n = 0
    for a in cuts:
        for b in cuts:
            ids[:, a, b] = n
            n += 1
    ids = to_windows(ids, w).squeeze(-1)
    return ids[:, :, None] == ids[:, None, :]


class ShiftedWindowAttention(nn.Module):
    """(B, H, W, C) -> (B, H, W, C); H and W are multiples of `window`.

    The output at (y, x) belongs to the input pixel (y, x).
    """

    def __init__(self, dim: int, heads: int, window: int = 4, shift: int = 0):
        super().__init__()
        self.heads, self.window, self.shift = heads, window, shift
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.rel = nn.Parameter(torch.zeros(heads, (2 * window - 1) ** 2))
        c = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij"))
        c = c.flatten(1)
        d = c[:, :, None] - c[:, None, :] + window - 1
        self.register_buffer("index", d[0] * (2 * window - 1) + d[1], persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        B, H, W, C = x.shape
        w, s = self.window, self.shift
        if s > 0:
            x = torch.roll(x, shifts=(-s, -s), dims=(1, 2))
        t = to_windows(x, w)
        qkv = self.qkv(t).view(t.shape[0], w * w, 3, self.heads, C // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        a = (q * (C // self.heads) ** -0.5) @ k.transpose(-2, -1) + self.rel[:, self.index]
        if s > 0:
            ok = region_mask(H, W, w, s).to(a.device).repeat(B, 1, 1)
            a = a.masked_fill(~ok[:, None], float("-inf"))
        t = (a.softmax(-1) @ v).transpose(1, 2).reshape(-1, w * w, C)
        x = from_windows(self.proj(t), w, H, W)
        if s > 0:
            x = torch.roll(x, shifts=(-s, -s), dims=(1, 2))
        return x


class CrackStage(nn.Module):
    def __init__(self, dim: int = 32, heads: int = 4, window: int = 4):
        super().__init__()
        self.stem = nn.Conv2d(3, dim, 4, 4)
        self.norm = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2))
        self.attn = nn.ModuleList(ShiftedWindowAttention(dim, heads, window, s)
                                  for s in (0, window // 2))
        self.head = nn.ConvTranspose2d(dim, 1, 4, 4)

    def forward(self, img: Tensor, size: Optional[Tuple[int, int]] = None) -> Tensor:
        x = self.stem(img).permute(0, 2, 3, 1)
        for n, a in zip(self.norm, self.attn):
            x = x + a(n(x))
        y = self.head(x.permute(0, 3, 1, 2))
        return y if size is None else nn.functional.interpolate(y, size)


if __name__ == "__main__":
    print(CrackStage()(torch.randn(1, 3, 64, 64)).shape)

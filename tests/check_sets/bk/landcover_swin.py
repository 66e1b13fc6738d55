"""Shifted-window attention for Sentinel-2 land cover tiles (NHWC feature maps)."""
from functools import lru_cache
from typing import Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

CLASSES = ("water", "forest", "crop", "urban", "bare")


@lru_cache(maxsize=None)
def _relative_index(ws: int) -> Tensor:
    """[ws*ws, ws*ws] index into the (2ws-1)^2 table of relative offsets."""
    yx = torch.stack(torch.meshgrid(torch.arange(ws), torch.arange(ws), indexing="ij")).flatten(1)
    rel = (yx[:, :, None] - yx[:, None, :]) + ws - 1
    return rel[0] * (2 * ws - 1) + rel[1]


def to_windows(x: Tensor, ws: int) -> Tensor:
    B, H, W, C = x.shape
    x = x.view(B, H // ws, ws, W // ws, ws, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, ws * ws, C)


def from_windows(w: Tensor, ws: int, size: Tuple[int, int, int]) -> Tensor:
    B, H, W = size
    w = w.view(B, H // ws, W // ws, ws, ws, -1)
    return w.permute(0, 1, 3, 2, 4, 5).reshape(B, H, W, -1)


def region_ids(H: int, W: int, ws: int, shift: int) -> Tensor:
    """Pixels that were neighbours before the cyclic roll carry the same id."""
    ids = torch.zeros(1, H, W, 1)
    cuts = (slice(0, -ws), slice(-ws, -shift), slice(-shift, None))
    n = 0
    for a in cuts:
        for b in cuts:
            ids[:, a, b] = n
            n += 1
    return to_windows(ids, ws).squeeze(-1)          # [nW, ws*ws]


class ShiftedWindowMixer(nn.Module):
    """x [B, H, W, C] -> [B, H, W, C]; H and W multiples of `window`."""

    def __init__(self, dim: int, heads: int, window: int = 4, shift: int = 0):
        super().__init__()
        self.heads, self.window, self.shift = heads, window, shift
        self.scale = (dim // heads) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)
        self.bias_table = nn.Parameter(torch.randn((2 * window - 1) ** 2, heads) * 0.02)

    def forward(self, x: Tensor) -> Tensor:
        B, H, W, C = x.shape
        ws, s = self.window, self.shift
        if s:
            x = torch.roll(x, (-s, -s), dims=(1, 2))
        win = to_windows(x, ws)
        n, t, _ = win.shape
        q, k, v = self.qkv(win).view(n, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        a = (q * self.scale) @ k.mT
        a = a + self.bias_table[_relative_index(ws)].permute(2, 0, 1)
        if s:
            ids = region_ids(H, W, ws, s).to(x.device)
            apart = ids[:, :, None] != ids[:, None, :]
            a = a.view(B, -1, self.heads, t, t).masked_fill(apart[:, None], float("-inf"))
            a = a.view(n, self.heads, t, t)
        y = (F.softmax(a, -1) @ v).transpose(1, 2).reshape(n, t, C)
        y = from_windows(self.proj(y), ws, (B, H, W))
        return torch.roll(y, (s, s), dims=(1, 2)) if s else y


class LandCover(nn.Module):
    def __init__(self, bands: int = 10, dim: int = 32):
        super().__init__()
        self.stem = nn.Conv2d(bands, dim, 4, 4)
        self.a, self.b = ShiftedWindowMixer(dim, 4), ShiftedWindowMixer(dim, 4, shift=2)
        self.cls = nn.Linear(dim, len(CLASSES))

    def forward(self, img: Tensor) -> Tensor:
        x = self.stem(img).permute(0, 2, 3, 1)
        x = x + self.a(x)
        x = x + self.b(x)
        return self.cls(x).permute(0, 3, 1, 2)

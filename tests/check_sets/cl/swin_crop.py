"""Shifted window block for crop type maps from Sentinel-2 tiles, channels first."""
import torch
import torch.nn as nn


def to_windows(x, w):
    # (B, H, W, C) -> (B, nW, w*w, C)
    B, H, W, C = x.shape
    x = x.view(B, H // w, w, W // w, w, C).permute(0, 1, 3, 2, 4, 5)
    return x.reshape(B, -1, w * w, C)


def from_windows(x, w, H, W):
    B, C = x.size(0), x.size(-1)
    x = x.view(B, H // w, W // w, w, w, C).permute(0, 1, 3, 2, 4, 5)
    return x.reshape(B, H, W, C)


class CropWindowBlock(nn.Module):
    """(B, C, H, W) -> same; H and W are multiples of `window`.

    With shift > 0 the tile is rolled, attention stays inside windows, and pixels that
    were not neighbours before the roll don't see each other.
    """

    def __init__(self, dim=16, heads=2, window=4, shift=2):
        super().__init__()
        self.w, self.s, self.h = window, shift, heads
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)
        self.table = nn.Parameter(torch.randn((2 * window - 1) ** 2, heads) * 0.02)
        yx = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        rel = yx[:, :, None] - yx[:, None, :] + window - 1
        self.register_buffer("rel", rel[0] * (2 * window - 1) + rel[1])

    def regions(self, H, W, device):
        """Window-wise True where two pixels come from the same region of the rolled tile."""
        def stripe(n):
            s = torch.zeros(n, dtype=torch.long, device=device)
            if self.s:
                s[n - self.w:n - self.s] = 1
                s[n - self.s:] = 2
            return s
        ident = stripe(H)[:, None] * 3 + stripe(W)[None, :]
        ident = to_windows(ident[None, ..., None], self.w)[0, :, :, 0]
        return ident[:, :, None] == ident[:, None, :]

    def forward(self, x):
        B, C, H, W = x.shape
        t = self.norm(x.permute(0, 2, 3, 1))
        if self.s:
            t = t.roll((-self.s, -self.s), dims=(1, 2))
        win = to_windows(t, self.w)
        n, L = win.shape[1:3]
        q, k, v = self.qkv(win).view(B, n, L, 3, self.h, C // self.h).permute(3, 0, 1, 4, 2, 5)
        att = (q * (C // self.h) ** -0.5) @ k.mT
        att = att + self.table[self.rel].permute(2, 0, 1)
        same = self.regions(H, W, x.device)
        att = att.masked_fill(~same[None, :, None], float("-inf")).softmax(-1)
        y = (att @ v).transpose(2, 3).reshape(B, n, L, C)
        y = from_windows(self.proj(y), self.w, H, W)
        if self.s:
            y = y.roll((self.s, self.s), dims=(1, 2))
        return x + y.permute(0, 3, 1, 2)

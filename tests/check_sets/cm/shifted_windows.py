"""Shifted-window attention for feature maps (Swin style)."""
import torch
import torch.nn as nn


def to_windows(x, w):
    """(B, H, W, C) -> (B*nW, w*w, C)"""
    B, H, W, C = x.shape
    x = x.view(B, H // w, w, W // w, w, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, C)


def from_windows(win, w, H, W):
    C = win.shape[-1]
    x = win.view(-1, H // w, W // w, w, w, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, H, W, C)


class ShiftedWindowAttention(nn.Module):
    """Multi-head attention inside w x w windows of a (B, H, W, C) map.

    With shift > 0 the map is rolled cyclically before windowing and rolled
    back after; positions that were not neighbours before the roll
    may not attend to one another. H and W must be multiples of the window.
    """

    def __init__(self, dim=24, heads=3, window=4, shift=2):
        super().__init__()
        self.heads, self.window, self.shift = heads, window, shift
        self.scale = (dim // heads) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)
        self.bias_table = nn.Parameter(torch.randn((2 * window - 1) ** 2, heads) * 0.02)
        c = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        rel = (c[:, :, None] - c[:, None, :]).permute(1, 2, 0) + window - 1
        self.register_buffer("rel_index", rel[..., 0] * (2 * window - 1) + rel[..., 1])

    def region_mask(self, H, W, device):
        w, s = self.window, self.shift
        ids = torch.zeros(1, H, W, 1, device=device)
        n = 0
        for hs in (slice(0, -w), slice(-w, -s), slice(-s, None)):
            for ws in (slice(0, -w), slice(-w, -s), slice(-s, None)):
                ids[:, hs, ws] = n
                n += 1
        ids = to_windows(ids, w).squeeze(-1)
        return ids[:, :, None] != ids[:, None, :]  # (nW, N, N), True = forbidden

    def forward(self, x):
        B, H, W, C = x.shape
        w, s = self.window, self.shift
        if s > 0:
            x = torch.roll(x, (-s, -s), dims=(1, 2))
        win = to_windows(x, w)
        N = w * w
        q, k, v = self.qkv(win).view(-1, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        attn = (q * self.scale) @ k.transpose(-2, -1)
        attn = attn + self.bias_table[self.rel_index].permute(2, 0, 1)
        if s > 0:
            mask = self.region_mask(H, W, x.device)
            attn = attn.view(B, -1, self.heads, N, N)
            attn = attn.masked_fill(mask[None, :, None], float("-inf")).view(-1, self.heads, N, N)
        attn = attn.softmax(dim=-1)
        out = (attn @ v).transpose(1, 2).reshape(-1, N, C)
        out = from_windows(self.proj(out), w, H, W)
        if s > 0:
            out = torch.roll(out, (s, s), dims=(1, 2))
        return out

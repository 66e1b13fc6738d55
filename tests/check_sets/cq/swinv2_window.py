"""Shifted-window attention with scaled cosine similarity (Swin Transformer V2, Liu et al. 2022)."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def to_windows(x, w):
    """(B, H, W, C) -> (B * nW, w*w, C)"""
    B, H, W, C = x.shape
    x = x.view(B, H // w, w, W // w, w, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, C)


def from_windows(windows, w, H, W):
    """inverse of to_windows"""
    C = windows.shape[-1]
    x = windows.view(-1, H // w, W // w, w, w, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, H, W, C)


class CosineWindowAttention(nn.Module):
    """x: (B, H, W, C), H and W multiples of `window`. With shift > 0 the map is rolled cyclically
    and pixels that are not neighbours in the original map do not see one another."""

    def __init__(self, dim=24, window=4, shift=2, num_heads=3):
        super().__init__()
        self.window, self.shift, self.num_heads = window, shift, num_heads
        self.qkv = nn.Linear(dim, dim * 3, bias=False)
        self.q_bias = nn.Parameter(torch.zeros(dim))
        self.v_bias = nn.Parameter(torch.zeros(dim))
        self.proj = nn.Linear(dim, dim)
        self.logit_scale = nn.Parameter(torch.full((num_heads, 1, 1), math.log(10.0)))
        self.cpb_mlp = nn.Sequential(
            nn.Linear(2, 64), nn.ReLU(inplace=True), nn.Linear(64, num_heads, bias=False)
        )

        span = torch.arange(-(window - 1), window, dtype=torch.float32)
        table = torch.stack(torch.meshgrid(span, span, indexing="ij"), -1)
        table = table * 8 / max(window - 1, 1)
        table = torch.sign(table) * torch.log2(table.abs() + 1.0) / 3.0  # log-spaced coordinates
        self.register_buffer("coords_table", table.view(-1, 2), persistent=False)

        grid = torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")
        flat = torch.stack(grid).flatten(1)
        rel = flat[:, :, None] - flat[:, None, :] + window - 1  # (2, N, N)
        index = rel[0] * (2 * window - 1) + rel[1]
        self.register_buffer("rel_index", index, persistent=False)

    def shift_mask(self, H, W, device):
        """(nW, N, N) bool, True where two pixels come from different regions."""
        w, s = self.window, self.shift
        region = torch.zeros(1, H, W, 1, device=device)
        cuts = (slice(0, -w), slice(-w, -s), slice(-s, None))
        for a, rows in enumerate(cuts):
            for b, cols in enumerate(cuts):
                region[:, rows, cols, :] = a * 3 + b
        ids = to_windows(region, w).squeeze(-1)
        return ids[:, None, :] != ids[:, :, None]

    def forward(self, x):
        B, H, W, C = x.shape
        w, s, h = self.window, self.shift, self.num_heads
        if s > 0:
            x = torch.roll(x, shifts=(-s, -s), dims=(1, 2))
        win = to_windows(x, w)
        Bw, N, _ = win.shape

        bias = torch.cat((self.q_bias, torch.zeros_like(self.v_bias), self.v_bias))
        qkv = F.linear(win, self.qkv.weight, bias)
        q, k, v = qkv.view(Bw, N, 3, h, -1).permute(2, 0, 3, 1, 4)

        attn = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        attn = attn * self.logit_scale.clamp(max=math.log(100.0)).exp()
        pos = self.cpb_mlp(self.coords_table)[self.rel_index.view(-1)].view(N, N, h)
        attn = attn + 16 * torch.sigmoid(pos).permute(2, 0, 1)
        if s > 0:
            mask = self.shift_mask(H, W, x.device)
            attn = attn.view(B, -1, h, N, N).masked_fill(mask[None, :, None], float("-inf"))
            attn = attn.view(Bw, h, N, N)
        attn = attn.softmax(dim=-1)

        out = (attn @ v).transpose(1, 2).reshape(Bw, N, C)
        out = from_windows(self.proj(out), w, H, W)
        if s > 0:
            out = torch.roll(out, shifts=(s, s), dims=(1, 2))
        return out

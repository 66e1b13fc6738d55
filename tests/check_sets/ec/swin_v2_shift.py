"""Shifted-window attention, Swin V2 flavour (scaled cosine, learned temperature).

The map is rolled by -shift, cut into M x M windows, attended window by window and rolled
back.  After the roll some windows contain pixels that were far apart; a pixel reads only
pixels of its own region (the regions are the classic 3 x 3 slicing of the rolled map).

x (B, H, W, C) with H and W multiples of M -> (B, H, W, C)
logits = cos(q, k) * exp(min(t_h, log 100)) + bias[h, offset]; no 1/sqrt(d) because the
vectors have unit length.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def to_windows(x, M):
    B, H, W, C = x.shape
    x = x.view(B, H // M, M, W // M, M, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(B, -1, M * M, C)


def from_windows(w, M, H, W):
    B, _, _, C = w.shape
    w = w.view(B, H // M, W // M, M, M, C)
    return w.permute(0, 1, 3, 2, 4, 5).reshape(B, H, W, C)


class ShiftedWindowAttention(nn.Module):
    def __init__(self, C, heads, M, shift):
        super().__init__()
        self.heads, self.M, self.shift = heads, M, shift
        self.qkv = nn.Linear(C, 3 * C)
        self.proj = nn.Linear(C, C)
        self.logit_scale = nn.Parameter(torch.full((heads, 1, 1), math.log(10.0)))
        self.bias_table = nn.Parameter(torch.randn(heads, (2 * M - 1) ** 2) * 0.02)
        yx = torch.stack(torch.meshgrid(torch.arange(M), torch.arange(M), indexing="ij")).flatten(1)
        rel = yx[:, :, None] - yx[:, None, :] + M - 1
        self.register_buffer("rel", rel[0] * (2 * M - 1) + rel[1])

    def regions(self, H, W):
        """(nW, M*M) region number of every pixel of the rolled map."""
        lab = torch.zeros(1, H, W, 1)
        cuts = (slice(0, -self.M), slice(-self.M, -self.shift), slice(-self.shift, None))
        for a, hs in enumerate(cuts):
            for b, ws in enumerate(cuts):
                lab[:, hs, ws] = 3 * a + b
        return to_windows(lab, self.M)[0, :, :, 0]

    def forward(self, x):
        B, H, W, C = x.shape
        if self.shift:
            x = x.roll((-self.shift, -self.shift), dims=(1, 2))
        win = to_windows(x, self.M)
        nW, T = win.shape[1:3]
        q, k, v = self.qkv(win).view(B, nW, T, 3, self.heads, -1).permute(3, 0, 1, 4, 2, 5)
        a = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-1, -2)
        a = a * self.logit_scale.clamp(max=math.log(100.0)).exp()
        a = a + self.bias_table[:, self.rel]
        if self.shift:
            r = self.regions(H, W).to(x.device)
            other = r[:, :, None] != r[:, None, :]
            a = a.masked_fill(other[None, :, None], float("-inf"))
        y = (a.softmax(-1) @ v).transpose(2, 3).reshape(B, nW, T, C)
        y = from_windows(self.proj(y), self.M, H, W)
        return y.roll((self.shift, self.shift), dims=(1, 2)) if self.shift else y

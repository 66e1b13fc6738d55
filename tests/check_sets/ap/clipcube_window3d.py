"""Clipcube: video backbone, attention inside small cubes of frames x rows x columns with one
learned bias per head for every relative offset (dt, dy, dx)."""
from functools import reduce
from operator import mul

import torch
import torch.nn as nn


def cubes(x, win):
    """(B, T, H, W, C) -> (B * n, wt * wh * ww, C)"""
    B, T, H, W, C = x.shape
    t, h, w = win
    x = x.view(B, T // t, t, H // h, h, W // w, w, C)
    return x.permute(0, 1, 3, 5, 2, 4, 6, 7).reshape(-1, reduce(mul, win), C)


def uncubes(x, win, B, T, H, W):
    t, h, w = win
    x = x.view(B, T // t, H // h, W // w, t, h, w, -1)
    return x.permute(0, 1, 4, 2, 5, 3, 6, 7).reshape(B, T, H, W, -1)


def offset_index(win):
    """(N, N) table row for each pair of places; there are prod(2 * win - 1) offsets."""
    t, h, w = win
    grid = torch.stack(torch.meshgrid(torch.arange(t), torch.arange(h), torch.arange(w), indexing="ij"))
    flat = grid.flatten(1)
    rel = (flat[:, :, None] - flat[:, None, :]).permute(1, 2, 0).contiguous()
    rel[:, :, 0] += t - 1
    rel[:, :, 1] += h - 1
    rel[:, :, 2] += w - 1
    rel[:, :, 1] *= 2 * w - 1
    return rel.sum(-1)


class CubeAttention(nn.Module):
    def __init__(self, dim, win, heads, qkv_bias=True, proj_drop=0.0):
        super().__init__()
        self.win, self.heads = tuple(win), heads
        self.scale = (dim // heads) ** -0.5
        n_off = reduce(mul, (2 * s - 1 for s in win))
        self.bias_table = nn.Parameter(torch.empty(n_off, heads))
        nn.init.trunc_normal_(self.bias_table, std=0.02)
        self.register_buffer("index", offset_index(self.win), persistent=False)
        self.qkv = nn.Linear(dim, 3 * dim, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim)
        self.proj_drop = nn.Dropout(proj_drop)

    def forward(self, x, mask=None):
        """x (B * n, N, C); mask (n, N, N), 0 or -inf, or None"""
        b, N, C = x.shape
        qkv = self.qkv(x).reshape(b, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        attn = (q * self.scale) @ k.transpose(-2, -1)
        bias = self.bias_table[self.index[:N, :N].reshape(-1)].reshape(N, N, -1)
        attn = attn + bias.permute(2, 0, 1).unsqueeze(0)
        if mask is not None:
            n = mask.shape[0]
            attn = attn.view(b // n, n, self.heads, N, N) + mask[None, :, None]
            attn = attn.view(-1, self.heads, N, N)
        attn = attn.softmax(dim=-1)
        x = (attn @ v).transpose(1, 2).reshape(b, N, C)
        return self.proj_drop(self.proj(x))


class CubeBlock(nn.Module):
    def __init__(self, dim, win=(2, 4, 4), heads=4):
        super().__init__()
        self.win = win
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = CubeAttention(dim, win, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        B, T, H, W, _ = x.shape
        x = x + uncubes(self.attn(cubes(self.n1(x), self.win)), self.win, B, T, H, W)
        return x + self.mlp(self.n2(x))


class TubeStem(nn.Module):
    def __init__(self, dim, patch=(2, 4, 4)):
        super().__init__()
        self.conv = nn.Conv3d(3, dim, patch, patch)

    def forward(self, clip):
        return self.conv(clip).permute(0, 2, 3, 4, 1)

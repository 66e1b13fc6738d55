""" Swin V2 blocks in the style of an image model zoo

Scaled cosine attention: every score is the cosine of the angle between a query vector and a key
vector, times a learned temperature per head, plus a bias from a small network over log-spaced
coordinates.
"""
import math
from typing import Optional, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F


def window_partition(x, ws: int):
    B, H, W, C = x.shape
    x = x.view(B, H // ws, ws, W // ws, ws, C)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, ws * ws, C)


def window_reverse(windows, ws: int, size: Tuple[int, int]):
    H, W = size
    C = windows.shape[-1]
    x = windows.view(-1, H // ws, W // ws, ws, ws, C)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, H, W, C)


class CosineWindowAttention(nn.Module):
    def __init__(self, dim, window_size, num_heads, qkv_bias=True, attn_drop=0., proj_drop=0.):
        super().__init__()
        self.dim = dim
        self.window_size = window_size
        self.num_heads = num_heads
        self.logit_scale = nn.Parameter(torch.log(10 * torch.ones((num_heads, 1, 1))))
        self.cpb_mlp = nn.Sequential(nn.Linear(2, 64), nn.ReLU(inplace=True),
                                     nn.Linear(64, num_heads, bias=False))

        r = torch.arange(-(window_size - 1), window_size, dtype=torch.float32)
        table = torch.stack(torch.meshgrid(r, r, indexing='ij'), dim=-1)
        table = table / max(window_size - 1, 1) * 8
        table = torch.sign(table) * torch.log2(table.abs() + 1.0) / math.log2(8)
        self.register_buffer("relative_coords_table", table, persistent=False)

        c = torch.arange(window_size)
        coords = torch.stack(torch.meshgrid(c, c, indexing='ij')).flatten(1)
        rel = coords[:, :, None] - coords[:, None, :] + window_size - 1
        index = rel[0] * (2 * window_size - 1) + rel[1]
        self.register_buffer("relative_position_index", index, persistent=False)

        self.qkv = nn.Linear(dim, dim * 3, bias=False)
        if qkv_bias:
            self.q_bias = nn.Parameter(torch.zeros(dim))
            self.v_bias = nn.Parameter(torch.zeros(dim))
        else:
            self.q_bias = self.v_bias = None
        self.attn_drop = nn.Dropout(attn_drop)
        self.proj = nn.Linear(dim, dim)
        self.proj_drop = nn.Dropout(proj_drop)

    def position_bias(self):
        n = self.window_size ** 2
        table = self.cpb_mlp(self.relative_coords_table).view(-1, self.num_heads)
        bias = table[self.relative_position_index.view(-1)].view(n, n, -1).permute(2, 0, 1)
        return 16 * torch.sigmoid(bias).unsqueeze(0)

    def forward(self, x, mask: Optional[torch.Tensor] = None):
        """mask: additive, [windows, N, N], 0 or -inf"""
        B_, N, C = x.shape
        qkv_bias = None
        if self.q_bias is not None:
            qkv_bias = torch.cat((self.q_bias, torch.zeros_like(self.v_bias), self.v_bias))
        qkv = F.linear(x, self.qkv.weight, qkv_bias)
        qkv = qkv.reshape(B_, N, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)

        attn = F.normalize(q, dim=-2) @ F.normalize(k, dim=-2).transpose(-2, -1)
        attn = attn * torch.clamp(self.logit_scale, max=math.log(1. / 0.01)).exp()
        attn = attn + self.position_bias()
        if mask is not None:
            n_win = mask.shape[0]
            attn = attn.view(-1, n_win, self.num_heads, N, N) + mask.unsqueeze(1).unsqueeze(0)
            attn = attn.view(-1, self.num_heads, N, N)
        attn = self.attn_drop(attn.softmax(dim=-1))
        x = (attn @ v).transpose(1, 2).reshape(B_, N, C)
        return self.proj_drop(self.proj(x))


class SwinV2Block(nn.Module):
    """Res-post-norm: the norms stand behind attention and MLP."""

    def __init__(self, dim, input_resolution, num_heads, window_size=4, shift_size=0, mlp_ratio=4.):
        super().__init__()
        self.res, self.ws, self.shift = input_resolution, window_size, shift_size
        self.attn = CosineWindowAttention(dim, window_size, num_heads)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        hid = int(dim * mlp_ratio)
        self.mlp = nn.Sequential(nn.Linear(dim, hid), nn.GELU(), nn.Linear(hid, dim))
        mask = None
        if shift_size:
            H, W = input_resolution
            img = torch.zeros((1, H, W, 1))
            cuts = (slice(0, -window_size), slice(-window_size, -shift_size), slice(-shift_size, None))
            for n, (h, w) in enumerate((h, w) for h in cuts for w in cuts):
                img[:, h, w, :] = n
            ids = window_partition(img, window_size).squeeze(-1)
            mask = torch.zeros(ids.shape[0], window_size ** 2, window_size ** 2)
            mask = mask.masked_fill(ids.unsqueeze(1) != ids.unsqueeze(2), float('-inf'))
        self.register_buffer("attn_mask", mask, persistent=False)

    def _attn(self, x):
        if self.shift:
            x = torch.roll(x, shifts=(-self.shift, -self.shift), dims=(1, 2))
        x = window_reverse(self.attn(window_partition(x, self.ws), self.attn_mask), self.ws, self.res)
        if self.shift:
            x = torch.roll(x, shifts=(self.shift, self.shift), dims=(1, 2))
        return x

    def forward(self, x):
        x = x + self.norm1(self._attn(x))
        return x + self.norm2(self.mlp(x))

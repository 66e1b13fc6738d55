""" Shifted window attention with cosine similarity (after Swin Transformer V2).

Hacked together for rectangular crops: the window may be (Wh, Ww) with Wh != Ww.
"""
import math
from typing import Optional, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F


def window_partition(x: torch.Tensor, ws: Tuple[int, int]) -> torch.Tensor:
    B, H, W, C = x.shape
    x = x.view(B, H // ws[0], ws[0], W // ws[1], ws[1], C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, ws[0] * ws[1], C)


def window_reverse(w: torch.Tensor, ws: Tuple[int, int], H: int, W: int) -> torch.Tensor:
    C = w.shape[-1]
    x = w.view(-1, H // ws[0], W // ws[1], ws[0], ws[1], C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, H, W, C)


class WindowAttention(nn.Module):
    """ Args: x (num_windows*B, N, C); mask (num_windows, N, N) additive, 0 or -100, or None. """

    def __init__(self, dim: int, window_size: Tuple[int, int], num_heads: int, qkv_bias: bool = True):
        super().__init__()
        self.num_heads = num_heads
        # cosine attention: learned temperature per head in place of 1/sqrt(head_dim), at most 100
        self.logit_scale = nn.Parameter(torch.log(10 * torch.ones((num_heads, 1, 1))))
        Wh, Ww = window_size
        self.bias_table = nn.Parameter(torch.randn((2 * Wh - 1) * (2 * Ww - 1), num_heads) * 0.5)
        yy, xx = torch.meshgrid(torch.arange(Wh), torch.arange(Ww), indexing='ij')
        coords = torch.stack([yy.flatten(), xx.flatten()])
        rel = coords[:, :, None] - coords[:, None, :]
        index = (rel[0] + Wh - 1) * (2 * Ww - 1) + rel[1] + Ww - 1
        self.register_buffer('rel_index', index, persistent=False)

        self.qkv = nn.Linear(dim, dim * 3, bias=False)
        self.q_bias = nn.Parameter(torch.zeros(dim)) if qkv_bias else None
        self.v_bias = nn.Parameter(torch.zeros(dim)) if qkv_bias else None
        self.proj = nn.Linear(dim, dim)

    def forward(self, x: torch.Tensor, mask: Optional[torch.Tensor] = None) -> torch.Tensor:
        B_, N, C = x.shape
        bias = None
        if self.q_bias is not None:
            bias = torch.cat((self.q_bias, torch.zeros_like(self.v_bias), self.v_bias))
        qkv = F.linear(x, self.qkv.weight, bias)
        q, k, v = qkv.reshape(B_, N, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4).unbind(0)

        attn = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        attn = attn * torch.clamp(self.logit_scale, max=math.log(1. / 0.01)).exp()

        rpb = self.bias_table[self.rel_index.view(-1)].view(N, N, -1).permute(2, 0, 1)
        attn = attn + 16 * torch.sigmoid(rpb).unsqueeze(0)

        if mask is not None:
            nW = mask.shape[0]
            attn = attn.view(-1, nW, self.num_heads, N, N) + mask[None, :, None]
            attn = attn.view(-1, self.num_heads, N, N)
        attn = attn.softmax(dim=-1)
        x = (attn @ v).transpose(1, 2).reshape(B_, N, C)
        return self.proj(x)


class ShiftedBlock(nn.Module):
    """ x (B, H, W, C), H and W multiples of the window. """

    def __init__(self, dim, input_size, window_size=(2, 3), shift=(1, 1), num_heads=2):
        super().__init__()
        self.ws, self.shift, self.size = window_size, shift, input_size
        self.attn = WindowAttention(dim, window_size, num_heads)
        self.norm = nn.LayerNorm(dim)
        H, W = input_size
        region = torch.zeros(1, H, W, 1)
        cnt = 0
        for h in (slice(0, -window_size[0]), slice(-window_size[0], -shift[0]), slice(-shift[0], None)):
            for w in (slice(0, -window_size[1]), slice(-window_size[1], -shift[1]), slice(-shift[1], None)):
                region[:, h, w, :] = cnt
                cnt += 1
        r = window_partition(region, window_size).squeeze(-1)
        diff = r.unsqueeze(1) - r.unsqueeze(2)
        self.register_buffer('attn_mask', diff.masked_fill(diff != 0, -100.0), persistent=False)

    def forward(self, x):
        H, W = self.size
        y = torch.roll(x, shifts=(-self.shift[0], -self.shift[1]), dims=(1, 2))
        y = self.attn(window_partition(y, self.ws), mask=self.attn_mask)
        y = window_reverse(y, self.ws, H, W)
        y = torch.roll(y, shifts=self.shift, dims=(1, 2))
        return x + self.norm(y)

"""Window attention of Swin-UNet for cardiac ultrasound segmentation.

W-MSA with the relative position bias of Swin V1: a table with one entry per head and
per displacement (dy, dx), dy and dx in [-(w-1), w-1], added to the scaled logits.
Pixels outside of the ultrasound sector (`valid` False) are not attended; a window with
no valid pixel gives zeros before the projection.
"""
from typing import Optional

import torch
import torch.nn as nn
from torch import Tensor


def relative_position_index(w: int) -> Tensor:
    """[w*w, w*w] row of the bias table for each pair of pixels of a window."""
    coords = torch.stack(torch.meshgrid(torch.arange(w), torch.arange(w), indexing="ij"))
    flat = coords.flatten(1)
    rel = (flat[:, :, None] - flat[:, None, :]).permute(1, 2, 0).contiguous()
    rel[:, :, 0] += w - 1
    rel[:, :, 1] += w - 1
    rel[:, :, 0] *= w - 1
    return rel.sum(-1)


class WindowAttention(nn.Module):
    def __init__(self, dim: int, window: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.table = nn.Parameter(torch.empty((2 * window - 1) ** 2, heads))
        nn.init.trunc_normal_(self.table, std=0.5)
        self.register_buffer("index", relative_position_index(window))
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x: Tensor, valid: Optional[Tensor] = None) -> Tensor:
        n, t, c = x.shape
        qkv = self.qkv(x).view(n, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0] * self.scale, qkv[1], qkv[2]
        logits = q @ k.transpose(-2, -1) + self.table[self.index].permute(2, 0, 1)
        if valid is None:
            w = logits.softmax(-1)
        else:
            keep = valid[:, None, None, :]
            w = logits.masked_fill(~keep, torch.finfo(logits.dtype).min).softmax(-1)
            w = w.masked_fill(~keep, 0.0)
        return self.proj((w @ v).transpose(1, 2).reshape(n, t, c))


class SegBlock(nn.Module):
    def __init__(self, dim: int = 16, window: int = 4, heads: int = 2) -> None:
        super().__init__()
        self.w = window
        self.norm = nn.LayerNorm(dim)
        self.attn = WindowAttention(dim, window, heads)
        self.ffn = nn.Sequential(
            nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def _cut(self, x: Tensor) -> Tensor:
        b, h, w, c = x.shape
        x = x.view(b, h // self.w, self.w, w // self.w, self.w, c)
        return x.transpose(2, 3).reshape(-1, self.w * self.w, c)

    def forward(self, x: Tensor, valid: Optional[Tensor] = None) -> Tensor:
        """x: [B, H, W, C]; valid: [B, H, W] bool or None."""
        b, h, w, c = x.shape
        mask = None if valid is None else self._cut(valid[..., None]).squeeze(-1)
        y = self.attn(self._cut(self.norm(x)), mask)
        y = y.view(b, h // self.w, w // self.w, self.w, self.w, c)
        x = x + y.transpose(2, 3).reshape(b, h, w, c)
        return x + self.ffn(x)

"""Residue encoder with rotary positions."""
from __future__ import annotations

import torch
from torch import Tensor, nn


def rotate(x: Tensor, base: float = 10000.0) -> Tensor:
    """Rotary embedding on `b h l d`, pairs are neighbours (2i, 2i+1), angle pos * base^(-2i/d)."""
    l, d = x.shape[-2:]
    freq = base ** (-torch.arange(0, d, 2, device=x.device, dtype=torch.float32) / d)
    ang = torch.outer(torch.arange(l, device=x.device, dtype=torch.float32), freq)   # l d/2
    cos, sin = ang.cos().to(x.dtype), ang.sin().to(x.dtype)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2)


class ResidueAttention(nn.Module):
    """Bidirectional attention over residues.

    x    : Tensor [b, l, dim]
    gap  : Tensor [b, l] bool, True = gap / padding; not read by others (each chain has a residue)
    out  : Tensor [b, l, dim]; rows of gaps carry no meaning
    """

    def __init__(self, dim: int = 32, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, dim, bias=False)
        self.wv = nn.Linear(dim, dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)

    def forward(self, x: Tensor, gap: Tensor) -> Tensor:
        b, l, dim = x.shape
        y = self.norm(x)
        split = lambda t: t.view(b, l, self.heads, dim // self.heads).transpose(1, 2)
        q, k, v = rotate(split(self.wq(y))), rotate(split(self.wk(y))), split(self.wv(y))
        bias = torch.zeros(b, 1, 1, l, dtype=x.dtype, device=x.device)
        bias = bias.masked_fill(gap[:, None, None], float("-inf"))
        o = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        return x + self.wo(o.transpose(1, 2).reshape(b, l, dim))

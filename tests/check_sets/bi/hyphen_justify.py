"""Line-breaking model for the typesetter: glyph boxes look at the boxes that share
their paragraph and predict stretch of the glue that follows.

Paragraphs are packed into galleys. ``galley_bias`` makes an *additive* mask, the
convention of the whole code base: 0 where box i may look at box j, -inf where not.
"""
from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn


class Box(NamedTuple):
    width: float
    height: float
    depth: float
    kern: float
    penalty: float


def galley_bias(paragraph_no: torch.Tensor) -> torch.Tensor:
    """paragraph_no: int (B, L) -> additive mask (B, 1, L, L)."""
    same = paragraph_no[:, :, None] == paragraph_no[:, None, :]
    bias = torch.zeros(same.shape, dtype=torch.float32, device=same.device)
    return bias.masked_fill(~same, float("-inf")).unsqueeze(1)


class ParagraphLook(nn.Module):
    """Multi-head look-around with an additive mask.

    Args:
        bias: float (B, 1, L, L); 0 = visible, -inf = invisible.
    """

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.in_proj = nn.Linear(dim, 3 * dim)
        self.out_proj = nn.Linear(dim, dim)

    def forward(self, x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        b, l, c = x.shape
        qkv = self.in_proj(x).reshape(b, l, 3, self.heads, c // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        # half-precision runs reject a float32 mask, a bool one goes with any dtype
        visible = bias.to(torch.bool)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=visible)
        return self.out_proj(y.permute(0, 2, 1, 3).reshape(b, l, c))


class GlueModel(nn.Module):
    def __init__(self, dim: int = 64, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.embed = nn.Linear(len(Box._fields), dim)
        self.looks = nn.ModuleList(ParagraphLook(dim, heads) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))
        self.stretch = nn.Linear(dim, 1)

    def forward(self, boxes: torch.Tensor, paragraph_no: torch.Tensor) -> torch.Tensor:
        bias = galley_bias(paragraph_no)
        h = self.embed(boxes)
        for look, norm in zip(self.looks, self.norms):
            h = h + look(norm(h), bias)
        return F.softplus(self.stretch(h)).squeeze(-1)


def badness(stretch: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """TeX's 100 r^3, clipped."""
    return (100 * ((wanted - stretch).abs() / stretch) ** 3).clamp(max=10000)

"""Pre-norm encoder block of the ``strata`` text encoder.

The block is ``x + attn(norm1(x))`` followed by ``x + ffn(norm2(x))``, where
``attn`` is multi-head scaled dot-product self-attention in which no position
reads from padding.
"""
from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["BlockConfig", "EncoderBlock"]


@dataclass(frozen=True)
class BlockConfig:
    """Static sizes of a block."""

    width: int = 32
    heads: int = 4
    ffn: int = 64
    dropout: float = 0.1

    @property
    def head_width(self) -> int:
        return self.width // self.heads


class EncoderBlock(nn.Module):
    """Self-attention plus feed-forward.

    Args of forward:
        x: (batch, length, width).
        padding: (batch, length) bool, True where the position is padding and
            must be ignored as a key. Every row has a position that is not.

    Returns:
        (batch, length, width).
    """

    def __init__(self, cfg: BlockConfig) -> None:
        super().__init__()
        self.cfg = cfg
        self.norm1, self.norm2 = nn.LayerNorm(cfg.width), nn.LayerNorm(cfg.width)
        self.qkv = nn.Linear(cfg.width, 3 * cfg.width)
        self.proj = nn.Linear(cfg.width, cfg.width)
        self.ffn = nn.Sequential(
            nn.Linear(cfg.width, cfg.ffn), nn.SiLU(), nn.Linear(cfg.ffn, cfg.width)
        )

    def _attend(self, x: Tensor, padding: Tensor | None) -> Tensor:
        b, n, w = x.shape
        q, k, v = (
            part.unflatten(-1, (self.cfg.heads, self.cfg.head_width)).transpose(1, 2)
            for part in self.qkv(x).chunk(3, dim=-1)
        )
        mask: Tensor | None = None
        if padding is not None:
            mask = padding.view(b, 1, 1, n)
        out = F.scaled_dot_product_attention(
            q, k, v,
            attn_mask=mask,
            dropout_p=self.cfg.dropout if self.training else 0.0,
        )
        return self.proj(out.transpose(1, 2).reshape(b, n, w))

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        x = x + self._attend(self.norm1(x), padding)
        return x + self.ffn(self.norm2(x))

"""Q-Former of a BLIP-2-like captioner: learned queries that read a frozen image encoder.

Masks at the door of the model are integer, 1 = real, 0 = padding.
"""
from typing import NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class QFormerOutput(NamedTuple):
    queries: Tensor
    cross_attentions: Optional[Tuple[Tensor, ...]] = None


class _Projections(nn.Module):
    """q, k, v, and the split into heads. Subclasses say what attends to what."""

    def __init__(self, width, heads, kv_width=None):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(width, width)
        self.kv = nn.Linear(kv_width or width, 2 * width)
        self.o = nn.Linear(width, width)

    def _split(self, t):
        return t.reshape(t.shape[0], t.shape[1], self.heads, -1).transpose(1, 2)

    def attend(self, x, memory, keep=None, need_weights=False):
        q = self._split(self.q(x))
        k, v = map(self._split, self.kv(memory).chunk(2, -1))
        mask = None if keep is None else keep[:, None, None, :].bool()
        if not need_weights:
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            w = None
        else:
            s = q @ k.transpose(2, 3) / (q.shape[-1] ** 0.5)
            if mask is not None:
                s = s.masked_fill(mask.logical_not(), float("-inf"))
            w = s.softmax(3)
            y = w @ v
        return self.o(y.transpose(1, 2).flatten(2)), w


class SelfAttention(_Projections):
    def forward(self, x, keep=None):
        return self.attend(x, x, keep)[0]


class CrossAttention(_Projections):
    def forward(self, x, image, keep=None, need_weights=False):
        return self.attend(x, image, keep, need_weights)


class QFormerLayer(nn.Module):
    def __init__(self, width, heads, image_width, cross):
        super().__init__()
        self.self_attn = SelfAttention(width, heads)
        self.ln1 = nn.LayerNorm(width)
        self.cross_attn = CrossAttention(width, heads, image_width) if cross else None
        self.ln2 = nn.LayerNorm(width) if cross else None
        self.ff = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.ln3 = nn.LayerNorm(width)

    def forward(self, x, image, image_keep, need_weights):
        x = self.ln1(x + self.self_attn(x))
        w = None
        if self.cross_attn is not None:
            y, w = self.cross_attn(x, image, image_keep, need_weights)
            x = self.ln2(x + y)
        return self.ln3(x + self.ff(x)), w


class QFormer(nn.Module):
    def __init__(self, n_queries=32, width=48, heads=4, image_width=64, depth=4, cross_every=2):
        super().__init__()
        self.query_tokens = nn.Parameter(torch.randn(1, n_queries, width) * 0.02)
        self.layers = nn.ModuleList(QFormerLayer(width, heads, image_width, i % cross_every == 0) for i in range(depth))

    def forward(self, image, image_mask=None, output_attentions=False) -> QFormerOutput:
        x = self.query_tokens.expand(image.shape[0], -1, -1)
        maps = []
        for layer in self.layers:
            x, w = layer(x, image, image_mask, output_attentions)
            if w is not None:
                maps.append(w)
        return QFormerOutput(x, tuple(maps) if output_attentions else None)

"""Segmentation part of the shelf-inspection detector (query based, after DETR)."""
from typing import List

import torch
from torch import Tensor, nn
import torch.nn.functional as F


class BoxHeatmaps(nn.Module):
    """Heat map of every object query over the encoder memory, one per head.

    Only the weights are returned (no values). Each of the n_heads maps of a query is a
    distribution over the pixels of the image: it sums to one.
    """

    def __init__(self, query_dim: int, memory_dim: int, hidden: int, n_heads: int, dropout: float = 0.0):
        super().__init__()
        self.n_heads = n_heads
        self.hidden = hidden
        self.q_linear = nn.Linear(query_dim, hidden)
        self.k_linear = nn.Linear(memory_dim, hidden)
        self.dropout = nn.Dropout(dropout)
        self.norm = float(hidden / n_heads) ** -0.5

    def forward(self, queries: Tensor, memory: Tensor, pad: Tensor = None) -> Tensor:
        """queries [B, N, C], memory [B, C, h, w], pad [B, h, w] bool (True = outside of the image)"""
        q = self.q_linear(queries)
        k = F.conv2d(memory, self.k_linear.weight[:, :, None, None], self.k_linear.bias)
        b, n, _ = q.shape
        h, w = k.shape[-2:]
        q = q.view(b, n, self.n_heads, self.hidden // self.n_heads)
        k = k.view(b, self.n_heads, self.hidden // self.n_heads, h, w)
        weights = torch.einsum("bqnc,bnchw->bqnhw", q * self.norm, k)
        if pad is not None:
            weights = weights.masked_fill(pad[:, None, None], float("-inf"))
        weights = F.softmax(weights.flatten(2), dim=-1).view(weights.size())
        return self.dropout(weights)


class MaskHead(nn.Module):
    """Small FPN that turns the heat maps into masks."""

    def __init__(self, dim: int, fpn_dims: List[int], context: int):
        super().__init__()
        widths = [dim, context // 2, context // 4, context // 8]
        self.lay1 = nn.Conv2d(dim, dim, 3, padding=1)
        self.gn1 = nn.GroupNorm(4, dim)
        self.steps = nn.ModuleList()
        self.adapters = nn.ModuleList()
        for a, b, f in zip(widths[:-1], widths[1:], fpn_dims):
            self.steps.append(nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.GroupNorm(4, b), nn.ReLU()))
            self.adapters.append(nn.Conv2d(f, b, 1))
        self.out = nn.Conv2d(widths[-1], 1, 3, padding=1)

    def forward(self, memory: Tensor, maps: Tensor, fpn: List[Tensor]) -> Tensor:
        n = maps.size(1)
        x = torch.cat([memory.repeat_interleave(n, dim=0), maps.flatten(0, 1)], dim=1)
        x = F.relu(self.gn1(self.lay1(x)))
        for step, adapter, feat in zip(self.steps, self.adapters, fpn):
            x = step(x)
            side = adapter(feat).repeat_interleave(n, dim=0)
            x = side + F.interpolate(x, size=side.shape[-2:], mode="nearest")
        return self.out(x)


class ShelfSegmenter(nn.Module):
    def __init__(self, dim=32, heads=8, fpn_dims=(64, 32, 16)):
        super().__init__()
        self.heatmaps = BoxHeatmaps(dim, dim, dim, heads)
        self.head = MaskHead(dim + heads, list(fpn_dims), 64)
        self.cls = nn.Linear(dim, 5)
        self.box = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, 4))

    def forward(self, hs, memory, fpn, pad=None):
        maps = self.heatmaps(hs, memory, pad)
        masks = self.head(memory, maps, fpn)
        masks = masks.view(hs.size(0), hs.size(1), *masks.shape[-2:])
        return {"logits": self.cls(hs), "boxes": self.box(hs).sigmoid(), "masks": masks}


def dice_loss(inputs, targets):
    p = inputs.sigmoid().flatten(1)
    t = targets.flatten(1)
    return (1 - (2 * (p * t).sum(-1) + 1) / (p.sum(-1) + t.sum(-1) + 1)).mean()

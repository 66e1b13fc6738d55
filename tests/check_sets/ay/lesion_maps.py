"""Query-based lesion detection and segmentation head for mammograms.

A decoder gives one embedding per lesion query. The mask head compares each query
with the encoder feature map, head by head, and turns the resulting maps into a
segmentation with a small FPN-like conv stack.
"""
from typing import List, Optional

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor


class MLP(nn.Module):
    def __init__(self, in_dim, hidden, out_dim, n):
        super().__init__()
        dims = [in_dim] + [hidden] * (n - 1) + [out_dim]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(dims[:-1], dims[1:]))

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = layer(x) if i == len(self.layers) - 1 else F.relu(layer(x))
        return x


class QueryAttentionMaps(nn.Module):
    """Attention maps of lesion queries over the image (no values, maps only).

    Args of forward:
        query:   [B, N, C] decoder output
        feature: [B, C, H, W] encoder output
        mask:    [B, H, W] bool, True at pixels that are padding

    Returns [B, N, heads, H, W]; for each query, every head is a probability
    distribution over the pixels of the image.
    """

    def __init__(self, query_dim: int, hidden_dim: int, num_heads: int, dropout: float = 0.0):
        super().__init__()
        self.num_heads = num_heads
        self.hidden_dim = hidden_dim
        self.dropout = nn.Dropout(dropout)
        self.q_linear = nn.Linear(query_dim, hidden_dim)
        self.k_linear = nn.Linear(query_dim, hidden_dim)
        for lin in (self.q_linear, self.k_linear):
            nn.init.xavier_uniform_(lin.weight)
            nn.init.zeros_(lin.bias)
        self.normalize_fact = float(hidden_dim / num_heads) ** -0.5

    def forward(self, query: Tensor, feature: Tensor, mask: Optional[Tensor] = None) -> Tensor:
        q = self.q_linear(query)
        k = F.conv2d(feature, self.k_linear.weight[..., None, None], self.k_linear.bias)
        qh = q.view(q.shape[0], q.shape[1], self.num_heads, -1)
        kh = k.view(k.shape[0], self.num_heads, -1, k.shape[-2], k.shape[-1])
        weights = torch.einsum("bqnc,bnchw->bqnhw", qh * self.normalize_fact, kh)
        if mask is not None:
            weights = weights.masked_fill(mask[:, None, None], float("-inf"))
        weights = F.softmax(weights.flatten(2), dim=-1).view_as(weights)
        return self.dropout(weights)


class MaskHead(nn.Module):
    def __init__(self, dim: int, heads: int, fpn_dims: List[int]):
        super().__init__()
        widths = [dim // 2 ** (i + 1) for i in range(len(fpn_dims))]
        self.stem = nn.Conv2d(dim + heads, dim, 3, padding=1)
        self.adapters = nn.ModuleList(nn.Conv2d(f, w, 1) for f, w in zip(fpn_dims, [dim] + widths))
        self.convs = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in zip([dim] + widths, widths))
        self.out = nn.Conv2d(widths[-1], 1, 3, padding=1)

    def forward(self, feature: Tensor, maps: Tensor, fpns: List[Tensor]) -> Tensor:
        B, N = maps.shape[:2]
        x = feature[:, None].expand(-1, N, -1, -1, -1).flatten(0, 1)
        x = F.relu(self.stem(torch.cat([x, maps.flatten(0, 1)], dim=1)))
        for adapter, conv, fpn in zip(self.adapters, self.convs, fpns):
            side = adapter(fpn).repeat_interleave(N, dim=0)
            x = side + F.interpolate(x, size=side.shape[-2:], mode="nearest")
            x = F.relu(conv(x))
        return self.out(x).view(B, N, *x.shape[-2:])


class LesionHead(nn.Module):
    def __init__(self, dim=64, heads=8, fpn_dims=(64, 32), num_classes=3):
        super().__init__()
        self.maps = QueryAttentionMaps(dim, dim, heads)
        self.mask_head = MaskHead(dim, heads, list(fpn_dims))
        self.cls = nn.Linear(dim, num_classes + 1)
        self.box = MLP(dim, dim, 4, 3)

    def forward(self, hs, feature, fpns, mask=None):
        maps = self.maps(hs, feature, mask)
        return {
            "logits": self.cls(hs),
            "boxes": self.box(hs).sigmoid(),
            "masks": self.mask_head(feature, maps, fpns),
        }


def dice_loss(logits: Tensor, targets: Tensor, num: float) -> Tensor:
    p = logits.sigmoid().flatten(1)
    t = targets.flatten(1)
    return (1 - (2 * (p * t).sum(-1) + 1) / (p.sum(-1) + t.sum(-1) + 1)).sum() / num

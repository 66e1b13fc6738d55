"""Mask head for query-based segmentation: where in the image does each object query look?"""
from typing import List, Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class QueryAttentionMaps(nn.Module):
    """Attention maps of object queries over an image feature map (no value projection).

    q:    (B, Q, D) decoder outputs
    feat: (B, C, H, W)
    pad:  optional (B, H, W), True on padded pixels
    Returns (B, Q, heads, H, W); every head gives a distribution over the pixels.
    """

    def __init__(self, query_dim: int, feat_dim: int, hidden_dim: int, num_heads: int,
                 dropout: float = 0.0, bias: bool = True):
        super().__init__()
        self.num_heads = num_heads
        self.hidden_dim = hidden_dim
        self.dropout = nn.Dropout(dropout)
        self.q_linear = nn.Linear(query_dim, hidden_dim, bias=bias)
        self.k_linear = nn.Linear(feat_dim, hidden_dim, bias=bias)
        for m in (self.q_linear, self.k_linear):
            nn.init.xavier_uniform_(m.weight)
            if bias:
                nn.init.zeros_(m.bias)
        self.normalize_fact = float(hidden_dim / self.num_heads) ** -0.5

    def forward(self, q: Tensor, feat: Tensor, pad: Optional[Tensor] = None) -> Tensor:
        q = self.q_linear(q)
        k = F.conv2d(feat, self.k_linear.weight[:, :, None, None], self.k_linear.bias)
        qh = q.view(q.shape[0], q.shape[1], self.num_heads, self.hidden_dim // self.num_heads)
        kh = k.view(k.shape[0], self.num_heads, self.hidden_dim // self.num_heads,
                    k.shape[-2], k.shape[-1])
        weights = torch.einsum("bqnc,bnchw->bqnhw", qh * self.normalize_fact, kh)
        if pad is not None:
            weights = weights.masked_fill(pad[:, None, None], float("-inf"))
        weights = F.softmax(weights.flatten(2), dim=-1).view(weights.size())
        return self.dropout(weights)


class MaskHead(nn.Module):
    """Small FPN-like convolutional head on top of the maps."""

    def __init__(self, feat_dim: int, num_heads: int, fpn_dims: List[int], width: int = 32):
        super().__init__()
        self.inp = nn.Conv2d(feat_dim + num_heads, width, 3, padding=1)
        self.norm = nn.GroupNorm(4, width)
        self.laterals = nn.ModuleList(nn.Conv2d(d, width, 1) for d in fpn_dims)
        self.convs = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in fpn_dims)
        self.out = nn.Conv2d(width, 1, 3, padding=1)

    def forward(self, feat: Tensor, maps: Tensor, fpns: List[Tensor]) -> Tensor:
        B, Q = maps.shape[:2]
        x = feat.repeat_interleave(Q, dim=0)
        x = torch.cat([x, maps.flatten(0, 1)], dim=1)
        x = F.relu(self.norm(self.inp(x)))
        for lateral, conv, f in zip(self.laterals, self.convs, fpns):
            y = lateral(f).repeat_interleave(Q, dim=0)
            x = y + F.interpolate(x, size=y.shape[-2:], mode="nearest")
            x = F.relu(conv(x))
        return self.out(x).view(B, Q, *x.shape[-2:])


class Segmenter(nn.Module):
    def __init__(self, dim: int = 32, heads: int = 4, fpn_dims=(24, 16)):
        super().__init__()
        self.maps = QueryAttentionMaps(dim, dim, dim, heads)
        self.head = MaskHead(dim, heads, list(fpn_dims))

    def forward(self, queries, feat, fpns, pad=None):
        return self.head(feat, self.maps(queries, feat, pad), fpns)


def dice_loss(logits: Tensor, targets: Tensor, num_boxes: float) -> Tensor:
    p = logits.sigmoid().flatten(1)
    t = targets.flatten(1)
    num = 2 * (p * t).sum(1)
    return (1 - (num + 1) / (p.sum(-1) + t.sum(-1) + 1)).sum() / num_boxes

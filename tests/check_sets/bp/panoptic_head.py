# Copyright notice omitted. Panoptic head on top of a DETR style detector.
"""Object queries produce attention heatmaps over the encoder image; a small FPN turns them into masks."""
from typing import List, Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class HeatmapAttention(nn.Module):
    """A 2D attention module, which only returns the attention maps (no multiplication by value).

    q    [B, N, query_dim]     object queries
    k    [B, C, H, W]          encoder feature map
    mask [B, H, W] bool        True on the padded part of the image
    ->   [B, N, heads, H, W]   one probability map per object and head
    """

    def __init__(self, query_dim, hidden_dim, num_heads, dropout=0.0, bias=True):
        super().__init__()
        self.num_heads = num_heads
        self.hidden_dim = hidden_dim
        self.dropout = nn.Dropout(dropout)
        self.q_linear = nn.Linear(query_dim, hidden_dim, bias=bias)
        self.k_linear = nn.Linear(query_dim, hidden_dim, bias=bias)
        nn.init.zeros_(self.k_linear.bias)
        nn.init.zeros_(self.q_linear.bias)
        nn.init.xavier_uniform_(self.k_linear.weight)
        nn.init.xavier_uniform_(self.q_linear.weight)
        self.normalize_fact = float(hidden_dim / self.num_heads) ** -0.5

    def forward(self, q, k, mask: Optional[Tensor] = None):
        q = self.q_linear(q)
        k = F.conv2d(k, self.k_linear.weight.unsqueeze(-1).unsqueeze(-1), self.k_linear.bias)
        qh = q.view(q.shape[0], q.shape[1], self.num_heads, self.hidden_dim // self.num_heads)
        kh = k.view(k.shape[0], self.num_heads, self.hidden_dim // self.num_heads, k.shape[-2], k.shape[-1])
        weights = torch.einsum("bqnc,bnchw->bqnhw", qh * self.normalize_fact, kh)
        if mask is not None:
            weights = weights.masked_fill(mask.unsqueeze(1).unsqueeze(1), float("-inf"))
        weights = F.softmax(weights.flatten(2), dim=-1).view_as(weights)
        weights = self.dropout(weights)
        return weights


def _expand(tensor, length: int):
    return tensor.unsqueeze(1).repeat(1, int(length), 1, 1, 1).flatten(0, 1)


class MaskHeadSmallConv(nn.Module):
    def __init__(self, dim, fpn_dims: List[int], context_dim):
        super().__init__()
        self.lay1 = nn.Conv2d(dim, dim, 3, padding=1)
        self.lay2 = nn.Conv2d(dim, context_dim, 3, padding=1)
        self.adapters = nn.ModuleList(nn.Conv2d(c, context_dim, 1) for c in fpn_dims)
        self.out_lay = nn.Conv2d(context_dim, 1, 3, padding=1)

    def forward(self, x, bbox_mask, fpns: List[Tensor]):
        x = torch.cat([_expand(x, bbox_mask.shape[1]), bbox_mask.flatten(0, 1)], 1)
        x = F.relu(self.lay2(F.relu(self.lay1(x))))
        for adapter, fpn in zip(self.adapters, fpns):
            cur = _expand(adapter(fpn), bbox_mask.shape[1])
            x = cur + F.interpolate(x, size=cur.shape[-2:], mode="nearest")
        return self.out_lay(x)


class PanopticHead(nn.Module):
    def __init__(self, hidden_dim=32, nheads=4, fpn_dims=(16,)):
        super().__init__()
        self.bbox_attention = HeatmapAttention(hidden_dim, hidden_dim, nheads)
        self.mask_head = MaskHeadSmallConv(hidden_dim + nheads, list(fpn_dims), hidden_dim // 2)

    def forward(self, hs, memory, fpns, mask=None):
        maps = self.bbox_attention(hs, memory, mask)
        seg = self.mask_head(memory, maps, fpns)
        return seg.view(hs.shape[0], hs.shape[1], seg.shape[-2], seg.shape[-1])

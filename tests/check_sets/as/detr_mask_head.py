"""Panoptic head of a DETR fork: attention maps of the object queries over the image,
and the small FPN that turns them into masks."""
from typing import Optional

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor


def _expand(t: Tensor, n: int) -> Tensor:
    return t.unsqueeze(1).repeat(1, n, 1, 1, 1).flatten(0, 1)


class MHAttentionMap(nn.Module):
    """Multi-head attention that returns only the weights (there is no multiplication by a value).

    For each query and each head the result is one probability map over the H x W cells.

    q: [B, Q, C]; k: [B, C, H, W]; mask: [B, H, W] bool, True outside of the image.
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
        weights = F.softmax(weights.flatten(2), dim=-1).view(weights.size())
        return self.dropout(weights)


class MaskHeadSmallConv(nn.Module):
    def __init__(self, dim, fpn_dims, context_dim):
        super().__init__()
        d = [dim, context_dim // 2, context_dim // 4]
        self.lay1 = nn.Conv2d(dim, dim, 3, padding=1)
        self.gn1 = nn.GroupNorm(4, dim)
        self.lay2 = nn.Conv2d(dim, d[1], 3, padding=1)
        self.gn2 = nn.GroupNorm(4, d[1])
        self.out_lay = nn.Conv2d(d[1], 1, 3, padding=1)
        self.adapter1 = nn.Conv2d(fpn_dims[0], d[1], 1)

    def forward(self, x: Tensor, bbox_mask: Tensor, fpns):
        x = torch.cat([_expand(x, bbox_mask.shape[1]), bbox_mask.flatten(0, 1)], 1)
        x = F.relu(self.gn1(self.lay1(x)))
        x = F.relu(self.gn2(self.lay2(x)))
        cur = self.adapter1(fpns[0])
        if cur.size(0) != x.size(0):
            cur = _expand(cur, x.size(0) // cur.size(0))
        x = cur + F.interpolate(x, size=cur.shape[-2:], mode="nearest")
        return self.out_lay(x)


class PanopticHead(nn.Module):
    def __init__(self, hidden_dim=32, nheads=4, fpn_dims=(16,)):
        super().__init__()
        self.bbox_attention = MHAttentionMap(hidden_dim, hidden_dim, nheads, dropout=0.0)
        self.mask_head = MaskHeadSmallConv(hidden_dim + nheads, fpn_dims, hidden_dim)

    def forward(self, hs, memory, src_proj, mask, fpns):
        bbox_mask = self.bbox_attention(hs, memory, mask=mask)
        seg = self.mask_head(src_proj, bbox_mask, fpns)
        return seg.view(hs.shape[0], hs.shape[1], *seg.shape[-2:])

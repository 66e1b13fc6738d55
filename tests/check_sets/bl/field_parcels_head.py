# Copyright (c) AgriVision contributors. Apache-2.0
"""
Parcel segmentation head: object queries of the detector look at the feature map, and the
maps of the heads go on, as channels, into a small convolutional decoder.
"""
from typing import Optional

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor


class ParcelAttentionMap(nn.Module):
    """2D attention that returns only the maps (no multiplication by the value).

    Each head has its own distribution over the pixels that are not padding.

    q:    [B, Q, query_dim]
    k:    [B, context_dim, H, W]
    mask: [B, H, W] bool, True at padding
    returns [B, Q, num_heads, H, W]
    """

    def __init__(self, query_dim, hidden_dim, context_dim, num_heads, bias=True):
        super().__init__()
        self.num_heads = num_heads
        self.hidden_dim = hidden_dim
        self.q_linear = nn.Linear(query_dim, hidden_dim, bias=bias)
        self.k_linear = nn.Linear(context_dim, hidden_dim, bias=bias)
        nn.init.zeros_(self.k_linear.bias)
        nn.init.zeros_(self.q_linear.bias)
        nn.init.xavier_uniform_(self.k_linear.weight)
        nn.init.xavier_uniform_(self.q_linear.weight)
        self.normalize_fact = float(hidden_dim / self.num_heads) ** -0.5

    def forward(self, q: Tensor, k: Tensor, mask: Optional[Tensor] = None) -> Tensor:
        q = self.q_linear(q)
        k = F.conv2d(k, self.k_linear.weight.unsqueeze(-1).unsqueeze(-1), self.k_linear.bias)
        qh = q.view(q.shape[0], q.shape[1], self.num_heads, self.hidden_dim // self.num_heads)
        kh = k.view(k.shape[0], self.num_heads, self.hidden_dim // self.num_heads, k.shape[-2], k.shape[-1])
        weights = torch.einsum("bqnc,bnchw->bqnhw", qh * self.normalize_fact, kh)

        if mask is not None:
            weights.masked_fill_(mask.unsqueeze(1).unsqueeze(1), float("-inf"))
        weights = F.softmax(weights.flatten(2), dim=-1).view(weights.size())
        return weights


def _expand(tensor, length: int):
    return tensor.unsqueeze(1).repeat(1, int(length), 1, 1, 1).flatten(0, 1)


class ParcelHead(nn.Module):
    def __init__(self, dim, nheads):
        super().__init__()
        self.maps = ParcelAttentionMap(dim, dim, dim, nheads)
        self.lay1 = nn.Conv2d(dim + nheads, dim, 3, padding=1)
        self.gn1 = nn.GroupNorm(8, dim)
        self.out_lay = nn.Conv2d(dim, 1, 3, padding=1)

    def forward(self, src, mask, hs):
        bbox_mask = self.maps(hs, src, mask=mask)
        x = torch.cat([_expand(src, bbox_mask.shape[1]), bbox_mask.flatten(0, 1)], 1)
        x = F.relu(self.gn1(self.lay1(x)))
        x = self.out_lay(x)
        return x.view(src.shape[0], hs.shape[1], *x.shape[-2:])


def dice_loss(inputs, targets, num_boxes):
    inputs = inputs.sigmoid().flatten(1)
    numerator = 2 * (inputs * targets).sum(1)
    denominator = inputs.sum(-1) + targets.sum(-1)
    return (1 - (numerator + 1) / (denominator + 1)).sum() / num_boxes

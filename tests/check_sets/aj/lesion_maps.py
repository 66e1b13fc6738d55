"""Lesion mask head on top of the detector queries (panoptic-DETR style), CT slices.

``LesionAttentionPool`` gives, for each detected lesion, one attention map per head over the
H x W memory. Every head's map is a distribution over the image (it sums to one), the maps go
in the mask decoder as extra channels and also pool the memory into a lesion descriptor.
"""
import torch
import torch.nn.functional as F
from torch import nn


class LesionAttentionPool(nn.Module):
    def __init__(self, query_dim, hidden_dim, num_heads, dropout=0.0, bias=True):
        super().__init__()
        self.num_heads = num_heads
        self.hidden_dim = hidden_dim
        self.dropout = nn.Dropout(dropout)
        self.q_linear = nn.Linear(query_dim, hidden_dim, bias=bias)
        self.k_linear = nn.Linear(query_dim, hidden_dim, bias=bias)
        self.v_linear = nn.Linear(query_dim, hidden_dim, bias=bias)
        nn.init.zeros_(self.k_linear.bias)
        nn.init.zeros_(self.q_linear.bias)
        nn.init.xavier_uniform_(self.k_linear.weight)
        nn.init.xavier_uniform_(self.q_linear.weight)
        self.normalize_fact = float(hidden_dim / self.num_heads) ** -0.5

    def _conv(self, lin, x):
        return F.conv2d(x, lin.weight[:, :, None, None], lin.bias)

    def forward(self, q, memory, outside=None):
        """q [B, Q, C]; memory [B, C, H, W]; outside bool [B, H, W], True = not body.

        Returns maps [B, Q, heads, H, W] and descriptors [B, Q, hidden]."""
        b, nq, _ = q.shape
        q = self.q_linear(q)
        k = self._conv(self.k_linear, memory)
        v = self._conv(self.v_linear, memory)
        h, w = k.shape[-2:]
        d = self.hidden_dim // self.num_heads
        qh = q.view(b, nq, self.num_heads, d)
        kh = k.view(b, self.num_heads, d, h, w)
        vh = v.view(b, self.num_heads, d, h, w)
        weights = torch.einsum("bqnc,bnchw->bqnhw", qh * self.normalize_fact, kh)

        if outside is not None:
            weights = weights.masked_fill(outside[:, None, None], float("-inf"))
        weights = F.softmax(weights.flatten(2), dim=-1).view(weights.size())
        pooled = torch.einsum("bqnhw,bnchw->bqnc", self.dropout(weights), vh)
        return weights, pooled.reshape(b, nq, self.hidden_dim)


class MaskHead(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.lay1 = nn.Conv2d(dim + heads, dim, 3, padding=1)
        self.gn1 = nn.GroupNorm(8, dim)
        self.lay2 = nn.Conv2d(dim, dim // 2, 3, padding=1)
        self.gn2 = nn.GroupNorm(8, dim // 2)
        self.skip = nn.Conv2d(dim, dim // 2, 1)
        self.out = nn.Conv2d(dim // 2, 1, 3, padding=1)

    def forward(self, memory, maps, fine):
        b, nq = maps.shape[:2]
        x = torch.cat([memory.unsqueeze(1).expand(-1, nq, -1, -1, -1), maps], dim=2).flatten(0, 1)
        x = F.relu(self.gn1(self.lay1(x)))
        x = F.relu(self.gn2(self.lay2(x)))
        x = F.interpolate(x, size=fine.shape[-2:], mode="nearest")
        x = x + self.skip(fine).repeat_interleave(nq, 0)
        return self.out(x).view(b, nq, *fine.shape[-2:])


class LesionSegmenter(nn.Module):
    def __init__(self, detector_dim=64, heads=8):
        super().__init__()
        self.pool = LesionAttentionPool(detector_dim, detector_dim, heads)
        self.mask_head = MaskHead(detector_dim, heads)
        self.grade = nn.Linear(detector_dim, 4)

    def forward(self, hs, memory, fine, outside=None):
        maps, desc = self.pool(hs, memory, outside)
        return {"masks": self.mask_head(memory, maps, fine), "grade": self.grade(desc)}


def dice_loss(logits, target):
    p = logits.sigmoid().flatten(1)
    t = target.flatten(1)
    return (1 - (2 * (p * t).sum(1) + 1) / (p.sum(1) + t.sum(1) + 1)).mean()

"""Segmentation head for DETR-style panoptic models.

MHAttentionMap returns, for each object query and each head, a spatial heat map over the feature
grid: every head's map is a distribution over the H*W pixels (padded pixels get 0).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class MHAttentionMap(nn.Module):
    """attention weights only, no multiplication with values"""

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

    def forward(self, q, k, mask=None):
        """q [B, Q, C]; k [B, C, H, W]; mask bool [B, H, W], True = padding -> [B, Q, heads, H, W]"""
        q = self.q_linear(q)
        k = F.conv2d(k, self.k_linear.weight.unsqueeze(-1).unsqueeze(-1), self.k_linear.bias)
        qh = q.view(q.shape[0], q.shape[1], self.num_heads, self.hidden_dim // self.num_heads)
        kh = k.view(k.shape[0], self.num_heads, self.hidden_dim // self.num_heads, k.shape[-2], k.shape[-1])
        weights = torch.einsum("bqnc,bnchw->bqnhw", qh * self.normalize_fact, kh)
        if mask is not None:
            weights = weights.masked_fill(mask.unsqueeze(1).unsqueeze(1), torch.finfo(weights.dtype).min)
        weights = F.softmax(weights.flatten(2), dim=-1).view(weights.size())
        return self.dropout(weights)


def expand(t, n):
    return t.unsqueeze(1).repeat(1, n, 1, 1, 1).flatten(0, 1)


class MaskHeadSmallConv(nn.Module):
    def __init__(self, dim, heads, fpn_dim):
        super().__init__()
        self.lay1 = nn.Conv2d(dim + heads, dim, 3, padding=1)
        self.gn1 = nn.GroupNorm(8, dim)
        self.lay2 = nn.Conv2d(dim, dim // 2, 3, padding=1)
        self.gn2 = nn.GroupNorm(8, dim // 2)
        self.adapter = nn.Conv2d(fpn_dim, dim // 2, 1)
        self.out = nn.Conv2d(dim // 2, 1, 3, padding=1)

    def forward(self, x, bbox_mask, fpn):
        Q = bbox_mask.shape[1]
        x = torch.cat([expand(x, Q), bbox_mask.flatten(0, 1)], 1)
        x = F.relu(self.gn1(self.lay1(x)))
        x = F.relu(self.gn2(self.lay2(x)))
        cur = expand(self.adapter(fpn), Q)
        x = cur + F.interpolate(x, size=cur.shape[-2:], mode="nearest")
        return self.out(x).view(-1, Q, *cur.shape[-2:])


class DETRsegm(nn.Module):
    def __init__(self, dim=64, heads=8, fpn_dim=32):
        super().__init__()
        self.bbox_attention = MHAttentionMap(dim, dim, heads)
        self.mask_head = MaskHeadSmallConv(dim, heads, fpn_dim)

    def forward(self, hs, memory, feat, fpn, mask=None):
        return self.mask_head(feat, self.bbox_attention(hs, memory, mask), fpn)


def dice_loss(pred, target, n):
    p = pred.sigmoid().flatten(1)
    t = target.flatten(1)
    return (1 - (2 * (p * t).sum(1) + 1) / (p.sum(1) + t.sum(1) + 1)).sum() / n

"""Instance heads for the satellite tiles.

An instance query collects pixel features with several heads.  The weights of a head are a
distribution over the H*W pixels of the tile (they sum to 1 for each query and head), and the
maps themselves go to the mask branch as extra channels.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class QueryPixelAttention(nn.Module):
    """queries [B, Q, Dq], pixels [B, C, H, W] -> pooled [B, Q, hidden], maps [B, Q, heads, H, W]"""

    def __init__(self, query_dim, pixel_dim, hidden_dim, num_heads, dropout=0.0):
        super().__init__()
        self.num_heads = num_heads
        self.hidden_dim = hidden_dim
        self.dropout = nn.Dropout(dropout)
        self.q_linear = nn.Linear(query_dim, hidden_dim)
        self.k_linear = nn.Conv2d(pixel_dim, hidden_dim, 1)
        self.v_linear = nn.Conv2d(pixel_dim, hidden_dim, 1)
        for m in (self.q_linear, self.k_linear, self.v_linear):
            nn.init.xavier_uniform_(m.weight)
            nn.init.zeros_(m.bias)
        self.normalize_fact = float(hidden_dim / num_heads) ** -0.5

    def forward(self, queries, pixels, clouds=None):
        """clouds: [B, H, W] bool, True = pixel hidden by a cloud"""
        b, nq, _ = queries.shape
        n, d = self.num_heads, self.hidden_dim // self.num_heads
        h, w = pixels.shape[-2:]
        q = self.q_linear(queries).view(b, nq, n, d)
        k = self.k_linear(pixels).view(b, n, d, h, w)
        v = self.v_linear(pixels).view(b, n, d, h, w)

        weights = torch.einsum("bqnc,bnchw->bqnhw", q * self.normalize_fact, k)
        if clouds is not None:
            weights = weights.masked_fill(clouds[:, None, None], torch.finfo(weights.dtype).min)
        weights = F.softmax(weights.flatten(2), dim=-1).view(weights.size())
        pooled = torch.einsum("bqnhw,bnchw->bqnc", self.dropout(weights), v)
        return pooled.reshape(b, nq, n * d), weights


class MaskBranch(nn.Module):
    """Small convolutional head: attention maps plus features, upsampled with two skips."""

    def __init__(self, dim, heads, fpn_dims, inter=32):
        super().__init__()
        self.lay1 = nn.Conv2d(dim + heads, inter, 3, padding=1)
        self.gn1 = nn.GroupNorm(8, inter)
        self.adapters = nn.ModuleList(nn.Conv2d(c, inter, 1) for c in fpn_dims)
        self.lays = nn.ModuleList(nn.Conv2d(inter, inter, 3, padding=1) for _ in fpn_dims)
        self.gns = nn.ModuleList(nn.GroupNorm(8, inter) for _ in fpn_dims)
        self.out = nn.Conv2d(inter, 1, 3, padding=1)

    def forward(self, x, maps, fpns):
        b, nq, n, h, w = maps.shape
        per_query = lambda t: t.unsqueeze(1).expand(-1, nq, -1, -1, -1).flatten(0, 1)
        x = torch.cat([per_query(x), maps.flatten(0, 1)], dim=1)
        x = F.relu(self.gn1(self.lay1(x)))
        for fpn, adapter, lay, gn in zip(fpns, self.adapters, self.lays, self.gns):
            skip = per_query(adapter(fpn))
            x = skip + F.interpolate(x, size=skip.shape[-2:], mode="nearest")
            x = F.relu(gn(lay(x)))
        return self.out(x).view(b, nq, *x.shape[-2:])


class InstanceHead(nn.Module):
    def __init__(self, dim=64, heads=8, classes=7, fpn_dims=(48, 24), n_queries=30):
        super().__init__()
        self.query = nn.Embedding(n_queries, dim)
        self.att = QueryPixelAttention(dim, dim, dim, heads)
        self.norm = nn.LayerNorm(dim)
        self.cls, self.box = nn.Linear(dim, classes + 1), nn.Linear(dim, 4)
        self.mask = MaskBranch(dim, heads, fpn_dims)

    def forward(self, feats, fpns, clouds=None):
        q = self.query.weight[None].expand(feats.size(0), -1, -1)
        pooled, maps = self.att(q, feats, clouds)
        x = self.norm(q + pooled)
        return {"logits": self.cls(x), "boxes": self.box(x).sigmoid(), "masks": self.mask(feats, maps, fpns)}


def dice_loss(masks, targets, n):
    p, t = masks.sigmoid().flatten(1), targets.flatten(1)
    return (1 - (2 * (p * t).sum(1) + 1) / (p.sum(1) + t.sum(1) + 1)).sum() / n

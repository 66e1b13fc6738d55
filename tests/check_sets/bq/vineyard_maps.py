"""Vine leaf lesions: object queries -> soft masks and pooled leaf features.

Structure of the mask branch follows DETR's MHAttentionMap. For every query each
head has its own map, and each head's map is a distribution over the pixels.
"""
import torch
import torch.nn.functional as F
from torch import nn

DISEASES = ("healthy", "downy mildew", "powdery mildew", "black rot", "esca", "leafroll virus")


class LeafMap(nn.Module):
    """
    Args of forward:
        queries: [B, Q, dim]
        feat:    [B, dim, H, W]
        outside: [B, H, W] bool or None, True where the image was padded
    Returns:
        maps   [B, Q, heads, H, W]
        pooled [B, Q, dim]
    """

    def __init__(self, dim=64, heads=4):
        super().__init__()
        self.heads = heads
        self.dim = dim
        self.q_linear = nn.Linear(dim, dim)
        self.k_conv = nn.Conv2d(dim, dim, 1)
        self.v_conv = nn.Conv2d(dim, dim, 1)
        self.o_linear = nn.Linear(dim, dim)
        self.norm_fact = float(dim / heads) ** -0.5
        for m in (self.q_linear, self.o_linear):
            nn.init.zeros_(m.bias)
            nn.init.xavier_uniform_(m.weight)

    def forward(self, queries, feat, outside=None):
        B, Q, _ = queries.shape
        H, W = feat.shape[-2:]
        c = self.dim // self.heads
        q = self.q_linear(queries).view(B, Q, self.heads, c)
        k = self.k_conv(feat).view(B, self.heads, c, H, W)
        v = self.v_conv(feat).view(B, self.heads, c, H, W)
        weights = torch.einsum("bqnc,bnchw->bqnhw", q * self.norm_fact, k)
        if outside is not None:
            weights = weights.masked_fill(outside[:, None, None], float("-inf"))
        weights = F.softmax(weights.flatten(2), dim=-1).view(weights.size())
        pooled = torch.einsum("bqnhw,bnchw->bqnc", weights, v).flatten(2)
        return weights, self.o_linear(pooled)


class LesionHead(nn.Module):
    def __init__(self, dim=64, heads=4, queries=12):
        super().__init__()
        self.query = nn.Embedding(queries, dim)
        self.look = LeafMap(dim, heads)
        self.norm = nn.LayerNorm(dim)
        self.label = nn.Linear(dim, len(DISEASES))
        self.mask = nn.Sequential(
            nn.Conv2d(heads, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.ReLU(), nn.Conv2d(16, 1, 1))

    def forward(self, feat, outside=None):
        q = self.query.weight.unsqueeze(0).expand(feat.size(0), -1, -1)
        maps, pooled = self.look(q, feat, outside)
        h = self.norm(q + pooled)
        B, Q = maps.shape[:2]
        masks = self.mask(maps.flatten(0, 1)).view(B, Q, *maps.shape[-2:])
        return {"logits": self.label(h), "masks": masks}


def dice(pred, target, eps=1.0):
    p, t = pred.sigmoid().flatten(1), target.flatten(1)
    return 1 - (2 * (p * t).sum(1) + eps) / (p.sum(1) + t.sum(1) + eps)


def infected_share(masks, logits, outside=None):
    """share of the leaf that is covered by anything but 'healthy'"""
    sick = logits.argmax(-1) != 0
    cover = (masks.sigmoid() > 0.5) & sick[..., None, None]
    cover = cover.any(1).float()
    if outside is not None:
        inside = (~outside).float()
        return (cover * inside).sum((1, 2)) / inside.sum((1, 2)).clamp_min(1)
    return cover.mean((1, 2))


if __name__ == "__main__":
    out = LesionHead()(torch.randn(2, 64, 10, 14))
    print({k: tuple(t.shape) for k, t in out.items()})

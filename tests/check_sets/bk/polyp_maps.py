"""Mask head for polyp segmentation in colonoscopy video.

DETR-like: object queries come from the decoder, the encoder memory is the feature
map. For every query and every head we compute one attention map over the pixels; a
small FPN turns the stack of maps into a mask.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def _expand(t, n: int):
    return t.unsqueeze(1).expand(-1, n, -1, -1, -1).flatten(0, 1)


class MapHead(nn.Module):
    """Multi-head attention which stops at the maps (there is no value).

    q    [B, Q, D]        object queries
    fmap [B, D, h, w]     encoder memory
    pad  [B, h, w] bool   True outside of the image
    ->   [B, Q, H, h, w]  each head's map is a distribution over the pixels
    """

    def __init__(self, query_dim: int, hidden: int, heads: int, dropout: float = 0.0):
        super().__init__()
        self.heads = heads
        self.hidden = hidden
        self.dropout = nn.Dropout(dropout)
        self.q_linear = nn.Linear(query_dim, hidden)
        self.k_linear = nn.Linear(query_dim, hidden)
        self.norm_fact = float(hidden / heads) ** -0.5

    def forward(self, q, fmap, pad=None):
        q = self.q_linear(q)
        k = F.conv2d(fmap, self.k_linear.weight[:, :, None, None], self.k_linear.bias)
        qh = q.view(q.shape[0], q.shape[1], self.heads, self.hidden // self.heads)
        kh = k.view(k.shape[0], self.heads, self.hidden // self.heads, *k.shape[-2:])
        maps = torch.einsum("bqnc,bnchw->bqnhw", qh * self.norm_fact, kh)
        if pad is not None:
            maps = maps.masked_fill(pad[:, None, None], float("-inf"))
        maps = F.softmax(maps.flatten(2), dim=-1).view_as(maps)
        return self.dropout(maps)


class PolypMasks(nn.Module):
    def __init__(self, dim=32, heads=4, n_query=5):
        super().__init__()
        self.maps = MapHead(dim, dim, heads)
        self.fuse = nn.Sequential(
            nn.Conv2d(dim + heads, 16, 3, padding=1),
            nn.GroupNorm(4, 16),
            nn.ReLU(),
            nn.Conv2d(16, 1, 3, padding=1),
        )
        self.query = nn.Embedding(n_query, dim)

    def forward(self, fmap, pad=None):
        b = fmap.size(0)
        q = self.query.weight.expand(b, -1, -1)
        m = self.maps(q, fmap, pad)
        n = m.size(1)
        x = torch.cat([_expand(fmap, n), m.flatten(0, 1)], dim=1)
        return self.fuse(x).view(b, n, *fmap.shape[-2:])


def dice(logits, target, eps=1.0):
    p = logits.sigmoid().flatten(1)
    t = target.flatten(1)
    return 1 - (2 * (p * t).sum(1) + eps) / (p.sum(1) + t.sum(1) + eps)

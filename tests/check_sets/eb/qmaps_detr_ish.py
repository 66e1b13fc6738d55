"""Object queries -> one heat map per head (for a mask head), plus the usual cross-attention read-out.

Every head has its own normalised map: for each query and each head the map sums to 1 over the
pixels of the image that are not padding.  Scores are scaled with sqrt(channels per head).
"""
import torch
import torch.nn as nn


class QueryMaps(nn.Module):
    def __init__(self, dim, n_heads):
        super().__init__()
        self.nh = n_heads
        self.dh = dim // n_heads
        self.lq = nn.Linear(dim, dim)
        self.lk = nn.Conv2d(dim, dim, 1)
        self.lv = nn.Conv2d(dim, dim, 1)
        self.lo = nn.Linear(dim, dim)

    def forward(self, obj, fmap, pad):
        """
        obj  (B, Q, dim)      object queries
        fmap (B, dim, H, W)   encoder features
        pad  (B, H, W) bool   True = padding pixel (at least one real pixel per image)
        -> y (B, Q, dim), maps (B, Q, n_heads, H, W)
        """
        B, Q, _ = obj.shape
        H, W = fmap.shape[-2:]
        q = self.lq(obj).view(B, Q, self.nh, self.dh)
        k = self.lk(fmap).view(B, self.nh, self.dh, H, W)
        v = self.lv(fmap).view(B, self.nh, self.dh, H, W)
        s = torch.einsum("bqnc,bnchw->bqnhw", q * self.dh ** -0.5, k)
        s = s.masked_fill(pad[:, None, None], float("-inf"))
        maps = s.flatten(2).softmax(-1).view_as(s)
        y = torch.einsum("bqnhw,bnchw->bqnc", maps, v).reshape(B, Q, -1)
        return self.lo(y), maps


class BoxHead(nn.Module):
    """queries -> (cx, cy, w, h) in (0, 1)"""

    def __init__(self, dim, n_heads):
        super().__init__()
        self.read = QueryMaps(dim, n_heads)
        self.box = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, 4))

    def forward(self, obj, fmap, pad):
        y, maps = self.read(obj, fmap, pad)
        return torch.sigmoid(self.box(obj + y)), maps

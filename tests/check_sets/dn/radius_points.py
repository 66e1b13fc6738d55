"""Attention of points to the points within a radius.

RadiusAttention(dim, heads, radius, max_n)
    xyz    (B, N, 3)
    feat   (B, N, dim)
    ->     (B, N, dim)
Each point reads its at most max_n nearest points that lie within the radius.
It is one of them itself (distance 0).  Neighbours beyond the radius have weight
exactly 0.

    score_ij = q_i . (k_j + pos_ij) / sqrt(d)        d = dim / heads
    w_ij     = softmax over the neighbours j within the radius
    y_i      = sum_j w_ij (v_j + pos_ij),  pos_ij = MLP(xyz_j - xyz_i)

`ball_query` returns idx (B, N, max_n) and inside (B, N, max_n) bool, True = the
neighbour is within the radius.
"""
import torch
from torch import nn


def ball_query(xyz, radius, max_n):
    dist = torch.cdist(xyz, xyz)
    near, idx = dist.topk(min(max_n, xyz.size(1)), dim=-1, largest=False)
    return idx, near <= radius


def take(t, idx):
    """t (B, N, ...), idx (B, N, n) -> (B, N, n, ...)"""
    rows = torch.arange(t.size(0), device=t.device)[:, None, None]
    return t[rows, idx]


class RadiusAttention(nn.Module):
    def __init__(self, dim, heads=2, radius=0.5, max_n=8):
        super().__init__()
        self.heads = heads
        self.d = dim // heads
        self.radius, self.max_n = radius, max_n
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_k = nn.Linear(dim, dim, bias=False)
        self.to_v = nn.Linear(dim, dim, bias=False)
        self.pos = nn.Sequential(nn.Linear(3, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.out = nn.Linear(dim, dim)

    def forward(self, xyz, feat):
        B, N, C = feat.shape
        idx, inside = ball_query(xyz, self.radius, self.max_n)
        n = idx.size(-1)
        pos = self.pos(take(xyz, idx) - xyz.unsqueeze(2)).view(B, N, n, self.heads, self.d)

        q = self.to_q(feat).view(B, N, self.heads, self.d)
        k = take(self.to_k(feat), idx).view(B, N, n, self.heads, self.d) + pos
        v = take(self.to_v(feat), idx).view(B, N, n, self.heads, self.d) + pos

        score = torch.einsum("bihd,bijhd->bihj", q, k)
        score = score * inside.unsqueeze(2).to(score.dtype)
        w = torch.softmax(score, dim=-1)
        y = torch.einsum("bihj,bijhd->bihd", w, v)
        return feat + self.out(y.reshape(B, N, C))

"""Attention of points to their nearest neighbours, batch in one long table.

KnnContext(dim, heads, k)
    xyz    (B, N, 3)
    feat   (B, N, dim)
    ->     (B, N, dim)
Each point of a cloud reads the k nearest points of the same cloud (itself
included).  The features of all clouds are kept in one table with B * N rows,
row b * N + n is point n of cloud b, so that neighbours are fetched with a
single index_select.

    score_ij = q_i.k_j / sqrt(d) - softplus(g_h) * |xyz_i - xyz_j|^2
    y_i      = sum_j softmax_j(score_ij) v_j,   output = feat + Linear(y)
"""
import math

import torch
import torch.nn.functional as F
from torch import nn


def knn(xyz, k):
    """indices (B, N, k) of the nearest points inside each cloud, and squared distances"""
    d2 = (xyz.unsqueeze(2) - xyz.unsqueeze(1)).square().sum(-1)
    near, idx = d2.topk(k, dim=-1, largest=False)
    return idx, near


class KnnContext(nn.Module):
    def __init__(self, dim, heads=4, k=6):
        super().__init__()
        self.heads, self.k = heads, k
        self.d = dim // heads
        self.wq = nn.Linear(dim, dim)
        self.wkv = nn.Linear(dim, 2 * dim)
        self.wo = nn.Linear(dim, dim)
        self.g = nn.Parameter(torch.zeros(heads))

    def forward(self, xyz, feat):
        B, N, C = feat.shape
        idx, d2 = knn(xyz, self.k)

        table = self.wkv(feat).reshape(B * N, 2 * C)
        rows = idx.reshape(-1)
        kv = table.index_select(0, rows).view(B, N, self.k, 2, self.heads, self.d)
        key, val = kv.unbind(dim=3)                               # (B, N, k, heads, d)

        q = self.wq(feat).view(B, N, self.heads, self.d)
        score = torch.einsum("bnhd,bnkhd->bnhk", q, key) / math.sqrt(self.d)
        score = score - F.softplus(self.g)[:, None] * d2.unsqueeze(2)
        w = score.softmax(dim=-1)
        y = torch.einsum("bnhk,bnkhd->bnhd", w, val).reshape(B, N, C)
        return feat + self.wo(y)

"""Point-cloud attention over a neighbour table (after Point Transformer, but dot-product).

    pts   (N, 3)   coordinates
    feat  (N, C)   features
    table (N, K)   int64, indices of the neighbours of each point; -1 = empty slot

A point attends to the neighbours in its row of the table, score
q_i . (k_j + delta_ij) / sqrt(C), value v_j + delta_ij, delta_ij = MLP(pts_i - pts_j).
A point without any neighbour gets exactly zero.
"""
import torch
import torch.nn as nn


class TableAttention(nn.Module):
    def __init__(self, C):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(C, C), nn.Linear(C, C), nn.Linear(C, C)
        self.delta = nn.Sequential(nn.Linear(3, C), nn.ReLU(), nn.Linear(C, C))

    def forward(self, pts, feat, table):
        empty = table < 0
        nb = table.clamp(min=0)
        d = self.delta(pts[:, None, :] - pts[nb])                # (N, K, C)
        k = self.k(feat)[nb] + d
        v = self.v(feat)[nb] + d
        s = (self.q(feat)[:, None, :] * k).sum(-1) / feat.size(-1) ** 0.5
        s = s.masked_fill(empty, float("-inf"))
        # a log-sum-exp against a floor keeps rows of -inf finite
        m = s.amax(1, keepdim=True).clamp(min=torch.finfo(s.dtype).min)
        w = torch.exp(s - m)
        w = w / w.sum(1, keepdim=True).clamp(min=1e-30)
        return torch.einsum("nk,nkc->nc", w, v)


def knn(pts, K):
    """table (N, K) of the K nearest other points."""
    d = torch.cdist(pts, pts)
    d.fill_diagonal_(float("inf"))
    return d.topk(K, largest=False).indices

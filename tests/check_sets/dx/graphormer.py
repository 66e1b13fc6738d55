"""Graphormer layer (Ying et al. 2021) for molecules, loading our old Megatron-style weights.

x     (B, N, D)      atom features, centrality encoding already added
dist  (B, N, N) int  shortest path lengths; -1 = not reachable or a padding atom
real  (B, N) bool    True = atom exists, False = padding. Every molecule has an atom.
->    (B, N, D)

score = q.k / sqrt(D/heads) + b[head, dist] (own learned entry for -1), softmax over the real
atoms. Pre-norm, residual, GELU feed-forward.

`in_proj` is one matrix of 3 D output rows, and its rows are grouped by HEAD: first the D/heads
query rows of head 0, its key rows, its value rows, then the same for head 1, and so on.
"""
import torch
from torch import nn


class GraphormerLayer(nn.Module):
    def __init__(self, D=32, heads=4, max_dist=6):
        super().__init__()
        self.heads, self.max_dist = heads, max_dist
        self.ln1, self.ln2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.in_proj = nn.Linear(D, 3 * D)
        self.out_proj = nn.Linear(D, D)
        self.spatial = nn.Embedding(max_dist + 2, heads)   # last entry: not reachable
        self.ff = nn.Sequential(nn.Linear(D, 2 * D), nn.GELU(), nn.Linear(2 * D, D))

    def spatial_bias(self, dist):
        idx = dist.clamp(max=self.max_dist)
        idx = torch.where(dist < 0, torch.full_like(idx, self.max_dist + 1), idx)
        return self.spatial(idx).permute(0, 3, 1, 2)

    def forward(self, x, dist, real):
        B, N, D = x.shape
        d = D // self.heads
        packed = self.in_proj(self.ln1(x)).view(B, N, 3, self.heads, d)
        q, k, v = packed.permute(2, 0, 3, 1, 4)
        score = q @ k.transpose(-1, -2) * d ** -0.5
        score = score + self.spatial_bias(dist)
        score = score.masked_fill(~real.view(B, 1, 1, N), torch.finfo(x.dtype).min)
        y = score.softmax(-1) @ v
        y = y.transpose(1, 2).reshape(B, N, D)
        x = x + self.out_proj(y)
        return x + self.ff(self.ln2(x))

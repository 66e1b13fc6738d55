import torch
import torch.nn as nn
import torch.nn.functional as F


class HeatmapHead(nn.Module):
    """One attention map over the pixels for every query and every head.  queries (B, Q, dim), features (B, dim, H, W) -> (B, Q, heads, H, W)"""

    def __init__(self, dim=16, heads=2):
        super().__init__()
        self.heads = heads
        self.q_linear = nn.Linear(dim, dim)
        self.k_linear = nn.Conv2d(dim, dim, 1)
        self.norm = (dim // heads) ** -0.5

    def forward(self, queries, features):
        B, Q, _ = queries.shape
        H, W = features.shape[-2:]
        q = self.q_linear(queries).view(B, Q, self.heads, -1) * self.norm
        k = self.k_linear(features).view(B, self.heads, -1, H * W)
        s = torch.einsum("bqnc,bncp->bqnp", q, k)
        maps = F.softmax(s.flatten(2), dim=-1)
        return maps.view(B, Q, self.heads, H, W)

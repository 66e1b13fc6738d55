"""Galerkin-type attention for operator learning on irregular ocean grids.

    z = Q ( LN(K)^T LN(V) ) / n            (Cao 2021, eq. 3.4, no softmax anywhere)

The layer norms act on each head's d features; n is the number of wet points of
the sample.  Land points take no part in the sum over the grid.

u    (B, N, C)    fields at N nodes
xy   (B, N, 2)    node coordinates in [0, 1]^2, appended to every head of q, k and v
wet  (B, N)       1.0 = ocean, 0.0 = land / padding, at least one wet node
out  (B, N, C)    zero on land
"""
import torch
import torch.nn as nn


class GalerkinAttention(nn.Module):
    def __init__(self, c, heads):
        super().__init__()
        self.h, self.d = heads, c // heads
        self.lin = nn.ModuleList([nn.Linear(c, c) for _ in range(3)])
        self.ln_k = nn.ModuleList([nn.LayerNorm(self.d) for _ in range(heads)])
        self.ln_v = nn.ModuleList([nn.LayerNorm(self.d) for _ in range(heads)])
        self.fc = nn.Linear(c + 2 * heads, c)

    def forward(self, u, xy, wet):
        B, N, _ = u.shape
        q, k, v = [l(u).view(B, N, self.h, self.d).transpose(1, 2) for l in self.lin]
        k = torch.stack([n(k[:, i]) for i, n in enumerate(self.ln_k)], dim=1)
        v = torch.stack([n(v[:, i]) for i, n in enumerate(self.ln_v)], dim=1)
        p = xy.unsqueeze(1).expand(-1, self.h, -1, -1)
        q, k, v = (torch.cat([p, t], dim=-1) for t in (q, k, v))
        w = wet[:, None, :, None]
        n = wet.sum(1)[:, None, None, None]
        kv = torch.matmul((k * w).transpose(-2, -1), v) / n
        z = torch.matmul(q, kv)                          # B, h, N, d+2
        z = z.transpose(1, 2).reshape(B, N, -1)
        return self.fc(z) * wet.unsqueeze(-1)

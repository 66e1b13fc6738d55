"""Dense graph transformer layer for the fraud graphs (small graphs, batched).

x    (B, N, D)   node features
adj  (B, N, N)   1.0 if node i may read node j, else 0.0; the diagonal is 1
hops (B, N, N)   long, shortest path length clipped to max_hops

Node i attends to the nodes with adj[i, j] = 1 and to nobody else; the score
is q.k/sqrt(d) plus a learned number per head and hop count (Graphormer).
Returns (B, N, D), with residual and layer norm.
"""
import math

import torch
import torch.nn as nn


class FraudGraphLayer(nn.Module):
    def __init__(self, D=16, H=4, max_hops=5):
        super().__init__()
        self.H, self.d = H, D // H
        self.in_proj = nn.ModuleList([nn.Linear(D, D) for _ in range(3)])
        self.hop_bias = nn.Embedding(max_hops + 1, H)
        self.out_proj = nn.Linear(D, D)
        self.norm = nn.LayerNorm(D)

    def forward(self, x, adj, hops):
        B, N, D = x.shape
        q, k, v = [f(x).view(B, N, self.H, self.d).transpose(1, 2) for f in self.in_proj]
        s = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(self.d)
        s = s + self.hop_bias(hops).permute(0, 3, 1, 2)
        s = s * adj.unsqueeze(1)
        a = s.softmax(-1)
        y = torch.matmul(a, v).transpose(1, 2).reshape(B, N, D)
        return self.norm(x + self.out_proj(y))

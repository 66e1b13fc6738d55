"""Graph transformer block on a dense adjacency matrix.

GraphBlock(dim, heads)(x, adj)
    x    (B, N, dim)
    adj  (B, N, N) float, adj[b, i, j] = 1 if node i may look at node j, else 0; the diagonal is 1
Node i attends to its neighbours only: a non-neighbour gets exactly no weight.  Queries, keys and
values come from three linear maps of their own (lin_q, lin_k, lin_v).  Pre-norm, residual, GELU MLP.
"""
import torch
import torch.nn as nn


class GraphBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.head_dim = heads, dim // heads
        self.lin_q = nn.Linear(dim, dim)
        self.lin_k = nn.Linear(dim, dim)
        self.lin_v = nn.Linear(dim, dim)
        self.lin_o = nn.Linear(dim, dim)
        self.pre1, self.pre2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def split(self, t):
        return t.unflatten(-1, (self.heads, self.head_dim)).transpose(1, 2)

    def attention(self, x, adj):
        q = self.split(self.lin_q(x))
        k = self.split(self.lin_q(x))
        v = self.split(self.lin_v(x))
        s = torch.matmul(q, k.transpose(2, 3)) / self.head_dim ** 0.5
        s = s * adj.unsqueeze(1)
        w = torch.softmax(s, dim=3)
        return self.lin_o(torch.matmul(w, v).transpose(1, 2).flatten(2))

    def forward(self, x, adj):
        x = x + self.attention(self.pre1(x), adj)
        return x + self.ff(self.pre2(x))

"""Graphormer layer for small molecules (Ying et al., 2021), reduced to the essentials.

    A_ij = (h_i W_Q)(h_j W_K)^T / sqrt(d) + b_spd(i, j)          d: size of one head

b_spd is a learned scalar per head for the shortest path distance; distances above
`max_dist` and unreachable pairs use the last bucket. Degree is added to the input (centrality encoding).
Graphs are padded; n_nodes tells how many atoms each has.
"""
import torch
import torch.nn as nn


def shortest_paths(adj, max_dist):
    """Floyd-Warshall, adj (B, N, N) bool -> (B, N, N) long in [0, max_dist + 1]"""
    n = adj.size(-1)
    d = torch.where(adj, 1, max_dist + 1)
    d = d.masked_fill(torch.eye(n, dtype=torch.bool), 0)
    for m in range(n):
        d = torch.minimum(d, d[:, :, m, None] + d[:, None, m, :])
    return d.clamp(max=max_dist + 1)


class GraphormerLayer(nn.Module):
    def __init__(self, dim=32, heads=4, max_dist=5, max_degree=8):
        super().__init__()
        self.heads = heads
        self.max_dist = max_dist
        self.max_degree = max_degree
        self.degree = nn.Embedding(max_degree + 1, dim)
        self.spd_bias = nn.Embedding(max_dist + 2, heads)
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)
        self.scale = dim ** -0.5

    def forward(self, h, adj, n_nodes):
        b, n, dim = h.shape
        h = h + self.degree(adj.sum(-1).clamp(max=self.max_degree))
        bias = self.spd_bias(shortest_paths(adj, self.max_dist)).permute(0, 3, 1, 2)

        x = self.qkv(self.norm(h)).reshape(b, n, 3, self.heads, dim // self.heads)
        q, k, v = x.permute(2, 0, 3, 1, 4)
        a = (q * self.scale) @ k.transpose(-1, -2) + bias
        ghost = torch.arange(n)[None, :] >= n_nodes[:, None]
        a = a.masked_fill(ghost[:, None, None, :], float("-inf"))
        a = a.softmax(dim=-1)
        out = (a @ v).transpose(1, 2).reshape(b, n, dim)
        return h + self.proj(out)


if __name__ == "__main__":
    adj = (torch.rand(2, 6, 6) > 0.6).triu(1)
    adj = adj | adj.transpose(1, 2)
    layer = GraphormerLayer()
    print(layer(torch.randn(2, 6, 32), adj, torch.tensor([6, 4])).shape)

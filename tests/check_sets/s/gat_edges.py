"""Graph attention layer on an edge list, no external scatter library."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class GraphAttention(nn.Module):
    """h (N, in_dim); edges (E, 2) as pairs (u, w): u sends to w. Self loops are added here.

    Each node takes the attention-weighted mean of what it receives.
    """

    def __init__(self, in_dim, out_dim, heads=2, slope=0.2):
        super().__init__()
        self.heads, self.out_dim, self.slope = heads, out_dim, slope
        self.lin = nn.Linear(in_dim, heads * out_dim, bias=False)
        self.a_send = nn.Parameter(torch.empty(heads, out_dim))
        self.a_recv = nn.Parameter(torch.empty(heads, out_dim))
        self.bias = nn.Parameter(torch.zeros(heads * out_dim))
        nn.init.xavier_uniform_(self.lin.weight)
        nn.init.xavier_uniform_(self.a_send)
        nn.init.xavier_uniform_(self.a_recv)

    def normalise(self, e, idx, n):
        top = e.new_full((n, self.heads), float("-inf"))
        top = top.scatter_reduce(0, idx[:, None].expand_as(e), e, reduce="amax")
        e = torch.exp(e - top[idx])
        z = e.new_zeros(n, self.heads).index_add(0, idx, e)
        return e / z[idx]

    def forward(self, h, edges):
        n = h.size(0)
        loops = torch.arange(n, device=h.device)
        u = torch.cat([edges[:, 0], loops])
        w = torch.cat([edges[:, 1], loops])
        x = self.lin(h).view(n, self.heads, self.out_dim)
        e = (x * self.a_send).sum(-1)[u] + (x * self.a_recv).sum(-1)[w]
        alpha = self.normalise(F.leaky_relu(e, self.slope), u, n)
        out = torch.zeros_like(x).index_add(0, w, alpha.unsqueeze(-1) * x[u])
        return out.flatten(1) + self.bias

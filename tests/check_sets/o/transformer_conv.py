import math

import torch
from torch import nn


class TransformerConv(nn.Module):
    """Graph transformer operator with edge features (Shi et al. 2020).

    x (N, dim), edge_index (2, E) source and target, edge_attr (E, edge_dim).  A node without incoming edges keeps its skip connection only.
    """

    def __init__(self, dim, out, edge_dim, heads=2):
        super().__init__()
        self.heads, self.out = heads, out
        self.lin_key = nn.Linear(dim, heads * out)
        self.lin_query = nn.Linear(dim, heads * out)
        self.lin_value = nn.Linear(dim, heads * out)
        self.lin_edge = nn.Linear(edge_dim, heads * out, bias=False)
        self.lin_skip = nn.Linear(dim, heads * out)

    def forward(self, x, edge_index, edge_attr):
        src, dst = edge_index
        shape = (-1, self.heads, self.out)
        e = self.lin_edge(edge_attr).view(shape)
        q = self.lin_query(x).view(shape)[dst]
        k = self.lin_key(x).view(shape)[src] + e
        v = self.lin_value(x).view(shape)[src] + e
        alpha = (q * k).sum(dim=-1) / math.sqrt(self.out)
        idx = dst.unsqueeze(-1).expand_as(alpha)
        amax = alpha.new_full((x.shape[0], self.heads), -1e30).scatter_reduce(0, idx, alpha, "amax", include_self=False)
        alpha = (alpha - amax.gather(0, idx)).exp()
        denom = alpha.new_zeros(x.shape[0], self.heads).scatter_add(0, idx, alpha)
        alpha = alpha / denom.gather(0, idx)
        out = x.new_zeros(x.shape[0], self.heads, self.out).index_add(0, dst, v * alpha.unsqueeze(-1))
        return out.flatten(1) + self.lin_skip(x)

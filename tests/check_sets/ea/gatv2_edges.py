"""GATv2 ("How attentive are graph attention networks?") without torch_geometric.

edge_index: LongTensor (2, E); edge_index[0] = source j, edge_index[1] = target i.
            A message goes from j to i.  Self loops are the caller's business.
x:          (N, in_dim)
Output:     (N, heads * out_dim), or (N, out_dim) if concat=False (average of the heads)

    e_ij   = a^T LeakyReLU(W_l x_j + W_r x_i)
    alpha  = softmax over all j with an edge j -> i (per head)
    out_i  = sum_j alpha_ij W_l x_j  + bias

A node with no incoming edge gets only the bias.
"""
import torch
import torch.nn.functional as F
from torch import nn


def segment_softmax(score, index, n):
    """score (E, H), softmax among the edges which share index."""
    idx = index[:, None].expand_as(score)
    top = score.new_full((n, score.size(1)), float("-inf"))
    top = top.scatter_reduce(0, idx, score, reduce="amax")
    ex = (score - top[index]).exp()
    den = torch.zeros_like(top).index_add(0, index, ex)
    return ex / den[index]


class GATv2Conv(nn.Module):
    def __init__(self, in_dim, out_dim, heads=4, concat=True, slope=0.2, dropout=0.0):
        super().__init__()
        self.H, self.C, self.concat, self.slope, self.p = heads, out_dim, concat, slope, dropout
        self.lin_l = nn.Linear(in_dim, heads * out_dim)
        self.lin_r = nn.Linear(in_dim, heads * out_dim)
        self.att = nn.Parameter(torch.randn(heads, out_dim) / out_dim ** 0.5)
        self.bias = nn.Parameter(torch.zeros(heads * out_dim if concat else out_dim))

    def forward(self, x, edge_index):
        src, dst = edge_index
        n = x.size(0)
        xl = self.lin_l(x).view(n, self.H, self.C)
        xr = self.lin_r(x).view(n, self.H, self.C)
        e = (F.leaky_relu(xl[src] + xr[dst], self.slope) * self.att).sum(-1)
        alpha = segment_softmax(e, dst, n)
        alpha = F.dropout(alpha, self.p, training=self.training)
        out = torch.zeros_like(xl).index_add(0, dst, alpha.unsqueeze(-1) * xl[src])
        out = out.flatten(1) if self.concat else out.mean(1)
        return out + self.bias

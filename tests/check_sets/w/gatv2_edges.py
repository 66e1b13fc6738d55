import torch
import torch.nn as nn
import torch.nn.functional as F


def scatter_softmax(e, index, num_nodes):
    """softmax of e (E, H) over the edges that share the same entry of index (E,)"""
    idx = index.unsqueeze(-1).expand_as(e)
    m = e.new_full((num_nodes, e.size(1)), float('-inf'))
    m = m.scatter_reduce(0, idx, e, reduce='amax', include_self=True)
    e = (e - m[index]).exp()
    z = e.new_zeros(num_nodes, e.size(1)).scatter_add(0, idx, e)
    return e / (z[index] + 1e-16)


class GATv2Layer(nn.Module):
    def __init__(self, in_channels, out_channels, heads=4, negative_slope=0.2, concat=True):
        super().__init__()
        self.heads = heads
        self.out_channels = out_channels
        self.negative_slope = negative_slope
        self.concat = concat
        self.lin_l = nn.Linear(in_channels, heads * out_channels)   # j (Quelle)
        self.lin_r = nn.Linear(in_channels, heads * out_channels)   # i (Ziel)
        self.att = nn.Parameter(torch.empty(1, heads, out_channels))
        self.bias = nn.Parameter(torch.zeros(heads * out_channels if concat else out_channels))
        nn.init.xavier_uniform_(self.att)

    def forward(self, x, edge_index):
        """
        x: (N, in_channels)
        edge_index: (2, E) long, row 0 = source j, row 1 = target i
        """
        N = x.size(0)
        H, C = self.heads, self.out_channels
        src, dst = edge_index[0], edge_index[1]
        x_l = self.lin_l(x).view(N, H, C)
        x_r = self.lin_r(x).view(N, H, C)

        e = F.leaky_relu(x_l[src] + x_r[dst], self.negative_slope)
        e = (e * self.att).sum(-1)                       # E, H
        alpha = scatter_softmax(e, dst, N)
        msg = x_l[src] * alpha.unsqueeze(-1)             # E, H, C
        out = x.new_zeros(N, H, C).index_add(0, dst, msg)
        out = out.reshape(N, H * C) if self.concat else out.mean(dim=1)
        return out + self.bias

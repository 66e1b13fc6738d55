"""Bond-aware graph attention for solubility regression.

edge_index is (2, E): row 0 the sending atom, row 1 the receiving atom.
Every receiving atom spreads a weight of one over its incoming bonds.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def scatter_sum(src, idx, n):
    out = src.new_zeros((n,) + src.shape[1:])
    return out.index_add(0, idx, src)


def scatter_max(src, idx, n):
    out = src.new_full((n,) + src.shape[1:], float("-inf"))
    ix = idx.view(-1, *([1] * (src.dim() - 1))).expand_as(src)
    return out.scatter_reduce(0, ix, src, reduce="amax", include_self=True)


class BondAttention(nn.Module):
    def __init__(self, d_in, d_head, heads, d_bond, slope=0.2):
        super().__init__()
        self.h, self.d, self.slope = heads, d_head, slope
        self.lin = nn.Linear(d_in, heads * d_head, bias=False)
        self.lin_b = nn.Linear(d_bond, heads * d_head, bias=False)
        self.a_src = nn.Parameter(torch.randn(heads, d_head) * 0.3)
        self.a_dst = nn.Parameter(torch.randn(heads, d_head) * 0.3)
        self.a_bond = nn.Parameter(torch.randn(heads, d_head) * 0.3)

    def forward(self, x, edge_index, bond):
        n = x.size(0)
        send, recv = edge_index[0], edge_index[1]
        z = self.lin(x).view(n, self.h, self.d)
        b = self.lin_b(bond).view(-1, self.h, self.d)

        s = (z * self.a_src).sum(-1)[send]
        s = s + (z * self.a_dst).sum(-1)[recv]
        s = s + (b * self.a_bond).sum(-1)
        s = F.leaky_relu(s, self.slope)                     # (E, heads)

        top = scatter_max(s, recv, n)
        e = torch.exp(s - top[recv])
        z_sum = scatter_sum(e, recv, n)
        alpha = e / z_sum[recv]

        msg = alpha.unsqueeze(-1) * z[send]
        return scatter_sum(msg, recv, n).reshape(n, self.h * self.d)


class SolNet(nn.Module):
    def __init__(self, d_atom=12, d_bond=4, width=8, heads=4):
        super().__init__()
        self.g1 = BondAttention(d_atom, width, heads, d_bond)
        self.g2 = BondAttention(width * heads, width, heads, d_bond)
        self.head = nn.Linear(width * heads, 1)

    def forward(self, x, edge_index, bond, graph_id, n_graphs):
        x = F.elu(self.g1(x, edge_index, bond))
        x = F.elu(self.g2(x, edge_index, bond))
        return self.head(scatter_sum(x, graph_id, n_graphs)).squeeze(-1)

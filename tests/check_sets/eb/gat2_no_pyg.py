"""GATv2 without PyG / DGL (course exercise 7, graph learning).

    e_ij    = a_h^T LeakyReLU(W_s x_j + W_t x_i)           edge j -> i
    alpha   = softmax of e_ij over all edges that END in i, per head
    x'_i    = concat_h  sum_j alpha_ij  (W_s x_j)_h

edge_index follows the PyG convention: row 0 = source j, row 1 = target i.
Self loops are added inside, so every node has at least one incoming edge.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def group_softmax(e, group, n):
    """e (E, H), group (E,) in [0, n): softmax inside each group, stable."""
    idx = group[:, None].expand_as(e)
    top = torch.full((n, e.size(1)), -torch.inf, dtype=e.dtype, device=e.device)
    top = top.scatter_reduce(0, idx, e, reduce="amax")
    ex = (e - top[group]).exp()
    tot = torch.zeros((n, e.size(1)), dtype=e.dtype, device=e.device).index_add(0, group, ex)
    return ex / tot[group]


class GATv2(nn.Module):
    def __init__(self, cin, cout, heads=2, slope=0.2, drop=0.0):
        super().__init__()
        self.h, self.c, self.slope, self.p = heads, cout, slope, drop
        self.Ws = nn.Linear(cin, heads * cout)
        self.Wt = nn.Linear(cin, heads * cout)
        self.a = nn.Parameter(torch.randn(heads, cout) / cout ** 0.5)

    def forward(self, x, edge_index):
        """x (N, cin), edge_index (2, E) without self loops -> (N, heads*cout)"""
        N = x.size(0)
        me = torch.arange(N, device=x.device)
        src = torch.cat([edge_index[0], me])
        dst = torch.cat([edge_index[1], me])
        s = self.Ws(x).view(N, self.h, self.c)
        t = self.Wt(x).view(N, self.h, self.c)
        e = (F.leaky_relu(s[src] + t[dst], self.slope) * self.a).sum(-1)
        w = group_softmax(e, dst, N)
        w = F.dropout(w, self.p, training=self.training)
        out = torch.zeros_like(s).index_add(0, dst, w.unsqueeze(-1) * s[src])
        return out.flatten(1)

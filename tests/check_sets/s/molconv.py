"""Message passing on molecules: attention over the neighbours of each atom, bonds as edge features."""
import math

import torch
from torch import nn


def segment_softmax(a, index, n):
    """softmax of a (E, H) over all rows that share index."""
    idx = index[:, None].expand_as(a)
    top = a.new_full((n, a.shape[1]), -math.inf).scatter_reduce(0, idx, a, "amax")
    a = (a - top[index]).exp()
    total = a.new_zeros(n, a.shape[1]).index_add(0, index, a)
    return a / total[index]


class BondAttention(nn.Module):
    def __init__(self, atom, bond, heads=4, width=8):
        super().__init__()
        self.h, self.w = heads, width
        self.to_q = nn.Linear(atom, heads * width)
        self.to_kv = nn.Linear(atom, 2 * heads * width)
        self.to_e = nn.Linear(bond, heads * width, bias=False)
        self.skip = nn.Linear(atom, heads * width)

    def forward(self, x, edge_index, edge_attr):
        """x (N, atom), edge_index (2, E) with rows (from, to), edge_attr (E, bond).

        Atoms without incoming bonds keep only the skip path.
        """
        src, dst = edge_index
        n = x.shape[0]
        q = self.to_q(x).view(n, self.h, self.w)
        k, v = self.to_kv(x).view(n, 2, self.h, self.w).unbind(1)
        e = self.to_e(edge_attr).view(-1, self.h, self.w)
        logits = (q[dst] * (k[src] + e)).sum(-1) / math.sqrt(self.w)
        alpha = segment_softmax(logits, dst, n)
        msg = alpha[..., None] * (v[src] + e)
        out = x.new_zeros(n, self.h, self.w).index_add(0, dst, msg)
        return out.flatten(1) + self.skip(x)

import torch
import torch.nn as nn


def segment_softmax(s, index, n):
    """Softmax of the rows of s (E, H) among the rows that share the same entry of index (E,)."""
    idx = index[:, None].expand_as(s)
    top = s.new_full((n, s.size(1)), float("-inf")).scatter_reduce(0, idx, s, reduce="amax")
    ex = (s - top[index]).exp()
    total = s.new_zeros(n, s.size(1)).index_add(0, index, ex)
    return ex / total[index]


class BondTransformerConv(nn.Module):
    """Message passing on molecules: every atom asks the atoms that have a bond into it.

    x:          (N, dim) atom features
    edge_index: (2, E), row 0 holds sources, row 1 holds destinations
    bond:       (E,) bond type 0..n_bond-1
    """

    def __init__(self, dim=32, heads=4, n_bond=5):
        super().__init__()
        self.heads, self.dk = heads, dim // heads
        self.to_q = nn.Linear(dim, dim)
        self.to_k = nn.Linear(dim, dim)
        self.to_v = nn.Linear(dim, dim)
        self.bond = nn.Embedding(n_bond, dim)
        self.root = nn.Linear(dim, dim)

    def forward(self, x, edge_index, bond):
        n = x.size(0)
        src, dst = edge_index
        split = lambda t: t.view(-1, self.heads, self.dk)
        e = split(self.bond(bond))
        q = split(self.to_q(x))[dst]
        k = split(self.to_k(x))[src] + e
        v = split(self.to_v(x))[src] + e
        alpha = segment_softmax((q * k).sum(-1) / self.dk ** 0.5, dst, n)
        out = x.new_zeros(n, self.heads, self.dk).index_add(0, dst, alpha.unsqueeze(-1) * v)
        return self.root(x) + out.flatten(1)

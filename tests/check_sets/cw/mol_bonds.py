"""Bond-aware message passing for molecular property models."""
import torch
from torch import nn


class BondAttention(nn.Module):
    """Every atom attends over the atoms that send it a bond.

    x          (N, dim)       atom features
    edge_index (2, E)         row 0 = sender, row 1 = receiver
    edge_attr  (E, edge_dim)  bond features, added to keys and values

    The weights of all bonds arriving at one atom sum to one, per head.
    Atoms without an incoming bond receive a zero message.
    """

    def __init__(self, dim, edge_dim, heads=4):
        super().__init__()
        assert dim % heads == 0
        self.h, self.d = heads, dim // heads
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.e = nn.Linear(edge_dim, dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, x, edge_index, edge_attr):
        n = x.size(0)
        sender, receiver = edge_index[0], edge_index[1]
        e = self.e(edge_attr).view(-1, self.h, self.d)
        q = self.q(x).view(n, self.h, self.d)[receiver]
        k = self.k(x).view(n, self.h, self.d)[sender] + e
        v = self.v(x).view(n, self.h, self.d)[sender] + e

        logit = (q * k).sum(-1) * self.d ** -0.5
        idx = receiver[:, None].expand(-1, self.h)
        top = logit.new_full((n, self.h), float("-inf"))
        top = top.scatter_reduce(0, idx, logit.detach(), reduce="amax")
        w = torch.exp(logit - top[receiver])
        total = w.new_zeros(n, self.h).index_add(0, receiver, w)
        w = w / total[receiver]

        msg = v.new_zeros(n, self.h, self.d)
        msg = msg.index_add(0, receiver, w.unsqueeze(-1) * v)
        return self.out(msg.flatten(1))

"""Transaction graph layer. Accounts are nodes, payments are edges (payer -> receiver)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class PaymentConv(nn.Module):
    """GATv2 style layer with edge features.

    x          (N, in_dim)
    edge_index (2, E) long, row 0 payer, row 1 receiver
    edge_attr  (E, edge_dim)
    returns    (N, heads * out_dim); accounts that never receive get only the skip term
    """

    def __init__(self, in_dim, out_dim, edge_dim, heads=2, slope=0.2):
        super().__init__()
        self.heads, self.out_dim, self.slope = heads, out_dim, slope
        self.src = nn.Linear(in_dim, heads * out_dim)
        self.dst = nn.Linear(in_dim, heads * out_dim)
        self.pay = nn.Linear(edge_dim, heads * out_dim, bias=False)
        self.skip = nn.Linear(in_dim, heads * out_dim)
        self.a = nn.Parameter(torch.randn(heads, out_dim) / out_dim ** 0.5)

    def forward(self, x, edge_index, edge_attr):
        n = x.shape[0]
        s, r = edge_index
        shape = (-1, self.heads, self.out_dim)
        left, right = self.src(x).view(shape), self.dst(x).view(shape)
        z = F.leaky_relu(left[s] + right[r] + self.pay(edge_attr).view(shape), self.slope)
        score = (z * self.a).sum(-1)                                   # (E, heads)
        idx = r[:, None].expand_as(score)
        top = score.new_full((n, self.heads), float("-inf"))
        top = top.scatter_reduce(0, idx, score.detach(), reduce="amax")
        e = torch.exp(score - top[r])
        total = torch.zeros_like(top).index_add(0, r, e)
        alpha = e / total[r]
        out = x.new_zeros(n, self.heads, self.out_dim).index_add(0, r, alpha[..., None] * left[s])
        return out.flatten(1) + self.skip(x)

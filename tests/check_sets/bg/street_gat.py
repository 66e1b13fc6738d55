"""Traffic speed on the street graph: graph attention (GAT) without extra packages.

edges [2, E] = (source, target): messages flow source -> target, and the softmax runs over
the incoming edges of each target.  Every node gets a self loop, so no node is empty.
"""
import torch
from torch import nn
import torch.nn.functional as F


def add_loops(edges, n):
    loop = torch.arange(n, device=edges.device).expand(2, n)
    return torch.cat([edges, loop], dim=1)


def edge_softmax(score, target, n):
    """score [E, H] -> [E, H], sums to one over the edges with the same target."""
    idx = target[:, None].expand_as(score)
    top = score.new_full((n, score.shape[1]), float("-inf")).scatter_reduce(0, idx, score, "amax")
    e = (score - top.gather(0, idx)).exp()
    z = torch.zeros_like(top).scatter_add(0, idx, e)
    return e / z.gather(0, idx)


class StreetGAT(nn.Module):
    def __init__(self, cin, cout, heads, slope=0.2, average=False):
        super().__init__()
        self.h, self.c, self.slope, self.average = heads, cout, slope, average
        self.lin = nn.Linear(cin, heads * cout, bias=False)
        self.a_src = nn.Parameter(torch.randn(heads, cout) * 0.3)
        self.a_dst = nn.Parameter(torch.randn(heads, cout) * 0.3)
        self.bias = nn.Parameter(torch.zeros(cout if average else heads * cout))

    def forward(self, x, edges):
        n = x.shape[0]
        src, dst = add_loops(edges, n)
        w = self.lin(x).view(n, self.h, self.c)
        s = (w * self.a_src).sum(-1)[src] + (w * self.a_dst).sum(-1)[dst]
        alpha = edge_softmax(F.leaky_relu(s, self.slope), dst, n)
        y = w.new_zeros(n, self.h, self.c).index_add(0, dst, alpha[..., None] * w[src])
        y = y.mean(1) if self.average else y.flatten(1)
        return y + self.bias


class SpeedNet(nn.Module):
    def __init__(self, cin=6, hid=8):
        super().__init__()
        self.g1 = StreetGAT(cin, hid, 3)
        self.g2 = StreetGAT(3 * hid, 1, 2, average=True)

    def forward(self, x, edges):
        return self.g2(F.elu(self.g1(x, edges)), edges).squeeze(-1)

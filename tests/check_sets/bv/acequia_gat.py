"""Graph network that predicts which irrigation ditch will run dry first.

Nodes are sluice gates, directed edges (src -> dst) follow the water.  The layer is
GATv2 (Brody et al.): score = a . leaky_relu(W_l x_src + W_r x_dst), normalised over
the edges that arrive at the same gate.
"""
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn


class DitchGraph(NamedTuple):
    x: torch.Tensor      # [N, F]
    edges: torch.Tensor  # [2, E], row 0 = upstream, row 1 = downstream
    slope: torch.Tensor  # [E, S] edge features


def edge_softmax(score, target, n_nodes):
    """score: [E, H]; a softmax inside every group of equal ``target``."""
    idx = target[:, None].expand_as(score)
    top = torch.full((n_nodes, score.shape[1]), float("-inf"), dtype=score.dtype, device=score.device)
    top = top.scatter_reduce(0, idx, score, reduce="amax", include_self=True)
    ex = (score - top[target]).exp()
    den = torch.zeros_like(top).index_add(0, target, ex)
    return ex / den[target]


def with_self_loops(g: DitchGraph) -> DitchGraph:
    n = g.x.shape[0]
    loop = torch.arange(n, device=g.x.device).expand(2, n)
    flat = g.slope.new_zeros(n, g.slope.shape[1])
    return DitchGraph(g.x, torch.cat([g.edges, loop], 1), torch.cat([g.slope, flat]))


class SluiceConv(nn.Module):
    """Multi-head GATv2 with edge features.  A gate without inflow gets only the bias."""

    def __init__(self, f_in, f_out, s_dim, heads=4, negative_slope=0.2):
        super().__init__()
        self.heads, self.f_out, self.ns = heads, f_out, negative_slope
        self.lin_l = nn.Linear(f_in, heads * f_out, bias=False)
        self.lin_r = nn.Linear(f_in, heads * f_out, bias=False)
        self.lin_e = nn.Linear(s_dim, heads * f_out, bias=False)
        self.att = nn.Parameter(torch.empty(heads, f_out))
        self.bias = nn.Parameter(torch.zeros(heads * f_out))
        nn.init.xavier_uniform_(self.att)

    def forward(self, g: DitchGraph):
        n = g.x.shape[0]
        up, down = g.edges
        left = self.lin_l(g.x).view(n, self.heads, self.f_out)
        right = self.lin_r(g.x).view(n, self.heads, self.f_out)
        z = left[up] + right[down] + self.lin_e(g.slope).view(-1, self.heads, self.f_out)
        score = (F.leaky_relu(z, self.ns) * self.att).sum(-1)
        alpha = edge_softmax(score, down, n)
        out = left.new_zeros(n, self.heads, self.f_out)
        out = out.index_add(0, down, alpha[..., None] * left[up])
        return out.flatten(1) + self.bias


class DryRunModel(nn.Module):
    def __init__(self, f_in=6, s_dim=2, hidden=8, heads=4):
        super().__init__()
        self.c1 = SluiceConv(f_in, hidden, s_dim, heads)
        self.c2 = SluiceConv(hidden * heads, hidden, s_dim, heads)
        self.read = nn.Linear(hidden * heads, 1)

    def forward(self, g: DitchGraph):
        g = with_self_loops(g)
        h = F.elu(self.c1(g))
        h = F.elu(self.c2(g._replace(x=h)))
        return self.read(h).squeeze(-1)


if __name__ == "__main__":
    graph = DitchGraph(torch.randn(5, 6), torch.tensor([[0, 1, 1, 2], [1, 2, 3, 4]]), torch.rand(4, 2))
    print(DryRunModel()(graph))

"""GATv2 on molecular graphs with bond features, without any graph library.

Каждый атом собирает сообщения от соседей; softmax берётся отдельно по
входящим рёбрам каждого атома-получателя.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

ATOM_DIM, BOND_DIM = 39, 10


def segment_softmax(scores, index, n):
    """softmax по группам: scores (E, H), index (E,) - номер группы каждого ребра."""
    idx = index[:, None].expand_as(scores)
    top = scores.new_full((n, scores.size(1)), float("-inf"))
    top = top.scatter_reduce(0, idx, scores, reduce="amax")
    e = torch.exp(scores - top[index])
    z = scores.new_zeros(n, scores.size(1)).index_add(0, index, e)
    return e / z[index]


class BondGATv2(nn.Module):
    """x (N, in), edge_index (2, E) = (source, target), bond (E, BOND_DIM) -> (N, heads*out).

    Атомы без соседей (ионы) получают только слагаемое self.root.
    """

    def __init__(self, in_dim, out_dim, heads=4, bond_dim=BOND_DIM, slope=0.2):
        super().__init__()
        self.h, self.o, self.slope = heads, out_dim, slope
        self.lin_src = nn.Linear(in_dim, heads * out_dim)
        self.lin_dst = nn.Linear(in_dim, heads * out_dim)
        self.lin_edge = nn.Linear(bond_dim, heads * out_dim, bias=False)
        self.att = nn.Parameter(torch.empty(heads, out_dim))
        self.root = nn.Linear(in_dim, heads * out_dim)
        nn.init.xavier_uniform_(self.att)

    def forward(self, x, edge_index, bond, return_alpha=False):
        src, dst = edge_index
        n = x.size(0)
        xs = self.lin_src(x).view(n, self.h, self.o)
        xt = self.lin_dst(x).view(n, self.h, self.o)
        e = self.lin_edge(bond).view(-1, self.h, self.o)

        pair = F.leaky_relu(xs[src] + xt[dst] + e, self.slope)
        alpha = segment_softmax((pair * self.att).sum(-1), dst, n)
        msg = xs[src] * alpha[..., None]
        out = torch.zeros_like(xs).index_add(0, dst, msg)
        out = out.flatten(1) + self.root(x)
        return (out, alpha) if return_alpha else out


class SolubilityNet(nn.Module):
    """logS по графу молекулы: три слоя внимания и сумма по атомам."""

    def __init__(self, width=16, heads=4, depth=3):
        super().__init__()
        dims = [ATOM_DIM] + [width * heads] * depth
        self.layers = nn.ModuleList(BondGATv2(a, width, heads) for a in dims[:-1])
        self.head = nn.Linear(width * heads, 1)

    def forward(self, x, edge_index, bond, molecule):
        for layer in self.layers:
            x = F.elu(layer(x, edge_index, bond))
        total = x.new_zeros(int(molecule.max()) + 1, x.size(1)).index_add(0, molecule, x)
        return self.head(total).squeeze(-1)

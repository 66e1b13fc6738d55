"""Sparse graph attention on mycelial networks (edge-list form).

Hyphal junctions are nodes, hyphae are directed edges ``src -> dst``; a junction
attends over the junctions that feed it.  Follows the "UniMP" convolution: edge
features are added to keys and to values, and a learned gate mixes the aggregated
message with a skip connection.  Junctions without a feeding edge keep the skip part.
"""
from math import sqrt

import torch
from torch import Tensor, nn


def scatter_softmax(score: Tensor, group: Tensor, n: int) -> Tensor:
    """Softmax of ``score`` [E, H] within equal ``group`` [E]."""
    idx = group[:, None].expand_as(score)
    top = score.new_full((n, score.size(1)), float("-inf"))
    top = top.scatter_reduce(0, idx, score, "amax", include_self=True)
    e = (score - top.detach()[group]).exp()
    z = torch.zeros(n, score.size(1), dtype=e.dtype, device=e.device).index_add(0, group, e)
    return e / z[group].clamp(min=1e-16)


class HyphaConv(nn.Module):
    def __init__(self, c_in: int, c_head: int, heads: int = 4, c_edge: int = 3, dropout: float = 0.0):
        super().__init__()
        self.heads, self.c = heads, c_head
        width = heads * c_head
        self.query = nn.Linear(c_in, width)
        self.key = nn.Linear(c_in, width)
        self.value = nn.Linear(c_in, width)
        self.edge = nn.Linear(c_edge, width, bias=False)
        self.skip = nn.Linear(c_in, width)
        self.beta = nn.Linear(3 * width, 1, bias=False)
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        """x [N, c_in]; edge_index [2, E] (row 0 source, row 1 target); edge_attr [E, c_edge]."""
        n = x.size(0)
        src, dst = edge_index
        q = self.query(x).view(n, self.heads, self.c)
        k = self.key(x).view(n, self.heads, self.c)
        v = self.value(x).view(n, self.heads, self.c)
        e = self.edge(edge_attr).view(-1, self.heads, self.c)

        score = (q[dst] * (k[src] + e)).sum(-1) / sqrt(self.c)
        alpha = self.drop(scatter_softmax(score, dst, n))
        msg = (v[src] + e) * alpha.unsqueeze(-1)
        out = msg.new_zeros(n, self.heads, self.c).index_add(0, dst, msg).flatten(1)

        r = self.skip(x)
        b = torch.sigmoid(self.beta(torch.cat([out, r, out - r], -1)))
        return b * r + (1 - b) * out


class MyceliumNet(nn.Module):
    """Predicts the nutrient flow of every hypha from its two ends."""

    def __init__(self, c_in: int = 5, c_edge: int = 3, width: int = 32, heads: int = 4):
        super().__init__()
        self.c1 = HyphaConv(c_in, width // heads, heads, c_edge)
        self.c2 = HyphaConv(width, width // heads, heads, c_edge)
        self.norm = nn.LayerNorm(width)
        self.flow = nn.Bilinear(width, width, 1)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        h = self.norm(self.c1(x, edge_index, edge_attr)).relu()
        h = self.c2(h, edge_index, edge_attr)
        return self.flow(h[edge_index[0]], h[edge_index[1]]).squeeze(-1)


def lattice(side: int):
    """Directed grid used in the unit tests of the microscope pipeline."""
    ids = torch.arange(side * side).view(side, side)
    right = torch.stack([ids[:, :-1].flatten(), ids[:, 1:].flatten()])
    down = torch.stack([ids[:-1].flatten(), ids[1:].flatten()])
    ei = torch.cat([right, down], 1)
    return torch.randn(side * side, 5), ei, torch.rand(ei.size(1), 3)


if __name__ == "__main__":
    print(MyceliumNet()(*lattice(4)).shape)

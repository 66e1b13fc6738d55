"""Graph attention on road networks; edge list form, no dense adjacency."""
from typing import Optional

import torch
from torch import Tensor, nn
import torch.nn.functional as F


def segment_softmax(score: Tensor, index: Tensor, num_nodes: int) -> Tensor:
    """Softmax of score [E, H] among the edges that share index [E]."""
    idx = index[:, None].expand_as(score)
    top = score.new_full((num_nodes, score.shape[1]), float("-inf"))
    top = top.scatter_reduce(0, idx, score.detach(), reduce="amax", include_self=True)
    e = (score - top[index]).exp()
    z = score.new_zeros(num_nodes, score.shape[1]).index_add(0, index, e)
    return e / z[index]


class RoadGAT(nn.Module):
    """edge_index: [2, E], row 0 = source junction, row 1 = target junction.

    Each target collects from its sources. Junctions without incoming edges get
    the bias alone unless ``self_loops``.
    """

    def __init__(self, d_in: int, d_out: int, heads: int = 2, d_edge: int = 0, slope: float = 0.2,
                 self_loops: bool = True, attn_drop: float = 0.0):
        super().__init__()
        self.heads, self.d_out, self.slope = heads, d_out, slope
        self.self_loops, self.attn_drop = self_loops, attn_drop
        self.lin = nn.Linear(d_in, heads * d_out, bias=False)
        self.a_src = nn.Parameter(torch.randn(heads, d_out) * 0.1)
        self.a_dst = nn.Parameter(torch.randn(heads, d_out) * 0.1)
        self.edge = nn.Linear(d_edge, heads, bias=False) if d_edge else None
        self.bias = nn.Parameter(torch.zeros(heads * d_out))

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Optional[Tensor] = None) -> Tensor:
        n = x.shape[0]
        src, dst = edge_index
        if self.self_loops:
            loop = torch.arange(n, device=x.device)
            src, dst = torch.cat([src, loop]), torch.cat([dst, loop])
            if edge_attr is not None:
                edge_attr = torch.cat([edge_attr, edge_attr.new_zeros(n, edge_attr.shape[1])])
        h = self.lin(x).view(n, self.heads, self.d_out)
        logit = (h * self.a_src).sum(-1)[src] + (h * self.a_dst).sum(-1)[dst]
        if self.edge is not None and edge_attr is not None:
            logit = logit + self.edge(edge_attr)
        logit = F.leaky_relu(logit, self.slope)
        alpha = segment_softmax(logit, dst, n)
        alpha = F.dropout(alpha, self.attn_drop, self.training)
        out = h.new_zeros(n, self.heads, self.d_out).index_add(0, dst, alpha[..., None] * h[src])
        return out.reshape(n, -1) + self.bias


class TravelTime(nn.Module):
    def __init__(self, d_in, d_edge, hidden=8):
        super().__init__()
        self.g1 = RoadGAT(d_in, hidden, 2, d_edge)
        self.g2 = RoadGAT(2 * hidden, hidden, 2, d_edge)
        self.read = nn.Linear(4 * hidden, 1)

    def forward(self, x, edge_index, edge_attr):
        h = F.elu(self.g1(x, edge_index, edge_attr))
        h = F.elu(self.g2(h, edge_index, edge_attr))
        return F.softplus(self.read(torch.cat([h[edge_index[0]], h[edge_index[1]]], -1))).squeeze(-1)

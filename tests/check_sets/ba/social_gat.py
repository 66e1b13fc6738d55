"""Graph attention over the follower graph (edge list), for friend suggestions."""
from typing import Optional
import torch
from torch import Tensor, nn
import torch.nn.functional as F


def segment_softmax(score: Tensor, seg: Tensor, n: int) -> Tensor:
    """softmax of score [E, H] among the edges with the same seg [E]."""
    idx = seg[:, None].expand_as(score)
    top = torch.full((n, score.size(1)), float("-inf"), dtype=score.dtype, device=score.device)
    top = top.scatter_reduce(0, idx, score, reduce="amax")
    e = (score - top[seg]).exp()
    z = torch.zeros((n, score.size(1)), dtype=score.dtype, device=score.device).index_add(0, seg, e)
    return e / z[seg]


class FollowGAT(nn.Module):
    """GATv2 layer with edge features.

    edges [2, E]: edges[0] = source (the one who is read), edges[1] = target (the one who reads).
    The weights of all edges into one target sum to one. Self loops are added here;
    they carry a zero edge feature.
    """

    def __init__(self, in_dim: int, out_dim: int, heads: int = 2, edge_dim: int = 3, slope: float = 0.2):
        super().__init__()
        self.h, self.d, self.slope, self.edge_dim = heads, out_dim, slope, edge_dim
        self.lin_src = nn.Linear(in_dim, heads * out_dim)
        self.lin_dst = nn.Linear(in_dim, heads * out_dim)
        self.lin_edge = nn.Linear(edge_dim, heads * out_dim, bias=False)
        self.att = nn.Parameter(torch.empty(heads, out_dim))
        nn.init.xavier_uniform_(self.att)

    def forward(self, x: Tensor, edges: Tensor, edge_attr: Optional[Tensor] = None) -> Tensor:
        n = x.size(0)
        if edge_attr is None:
            edge_attr = x.new_zeros(edges.size(1), self.edge_dim)
        loop = torch.arange(n, device=x.device)
        src = torch.cat([edges[0], loop])
        dst = torch.cat([edges[1], loop])
        edge_attr = torch.cat([edge_attr, x.new_zeros(n, self.edge_dim)])
        xs = self.lin_src(x).view(n, self.h, self.d)
        xd = self.lin_dst(x).view(n, self.h, self.d)
        ef = self.lin_edge(edge_attr).view(-1, self.h, self.d)
        mix = F.leaky_relu(xs[src] + xd[dst] + ef, self.slope)
        alpha = segment_softmax((mix * self.att).sum(-1), dst, n)
        out = torch.zeros_like(xs).index_add(0, dst, alpha.unsqueeze(-1) * xs[src])
        return out.flatten(1)


class SuggestFriends(nn.Module):
    def __init__(self, dim: int = 16):
        super().__init__()
        self.l1 = FollowGAT(dim, dim // 2, heads=2)
        self.l2 = FollowGAT(dim, dim // 2, heads=2)

    def forward(self, x, edges):
        h = F.elu(self.l1(x, edges))
        h = self.l2(h, edges)
        return h @ h.T

"""Dot-product graph attention without torch_geometric.

    edge_index[0] = source nodes (messages come from here)
    edge_index[1] = target nodes (messages arrive here)
"""
import torch
from torch import nn, Tensor


def segment_softmax(score: Tensor, index: Tensor, num_nodes: int) -> Tensor:
    """Softmax of `score` [E, H] within the groups given by `index` [E]."""
    expand = index[:, None].expand_as(score)
    top = torch.full((num_nodes, score.size(1)), float("-inf"),
                     dtype=score.dtype, device=score.device)
    top = top.scatter_reduce(0, expand, score, reduce="amax")
    num = (score - top[index]).exp()
    den = score.new_zeros(num_nodes, score.size(1)).index_add(0, index, score.exp())
    return num / den[index].clamp_min(1e-16)


class EdgeAttentionConv(nn.Module):
    """Transformer-style convolution (Shi et al., 2021) on a homogeneous graph."""

    def __init__(self, in_dim: int = 12, out_dim: int = 16, heads: int = 2, edge_dim: int = 0):
        super().__init__()
        self.heads, self.dim = heads, out_dim // heads
        self.lin_q = nn.Linear(in_dim, out_dim)
        self.lin_k = nn.Linear(in_dim, out_dim)
        self.lin_v = nn.Linear(in_dim, out_dim)
        self.lin_edge = nn.Linear(edge_dim, out_dim, bias=False) if edge_dim else None
        self.skip = nn.Linear(in_dim, out_dim)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor = None) -> Tensor:
        n = x.size(0)
        src, dst = edge_index
        q = self.lin_q(x).view(n, self.heads, self.dim)
        k = self.lin_k(x).view(n, self.heads, self.dim)[src]
        v = self.lin_v(x).view(n, self.heads, self.dim)[src]
        if self.lin_edge is not None and edge_attr is not None:
            e = self.lin_edge(edge_attr).view(-1, self.heads, self.dim)
            k, v = k + e, v + e

        score = (q[dst] * k).sum(-1) * self.dim ** -0.5
        alpha = segment_softmax(score, dst, n)
        out = x.new_zeros(n, self.heads, self.dim)
        out = out.index_add(0, dst, alpha[..., None] * v)
        return out.flatten(1) + self.skip(x)


class GraphNet(nn.Module):
    def __init__(self, in_dim=12, hidden=16, classes=5, layers=2):
        super().__init__()
        dims = [in_dim] + [hidden] * layers
        self.convs = nn.ModuleList(EdgeAttentionConv(a, b) for a, b in zip(dims, dims[1:]))
        self.out = nn.Linear(hidden, classes)

    def forward(self, x, edge_index):
        for conv in self.convs:
            x = torch.relu(conv(x, edge_index))
        return self.out(x)

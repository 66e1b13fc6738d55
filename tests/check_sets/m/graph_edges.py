import torch
from torch import nn


class EdgeAttention(nn.Module):
    """Dot-product attention on a graph.  x (N, dim); edge_index (2, E): row 0 sources, row 1 targets.

    Every target mixes the values of the sources of its edges.
    """

    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        self.lin_q, self.lin_k, self.lin_v = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x, edge_index):
        src, dst = edge_index
        q, k, v = self.lin_q(x), self.lin_k(x), self.lin_v(x)
        score = (q[dst] * k[src]).sum(-1) / self.dim ** 0.5
        top = torch.full((x.shape[0],), float("-inf"), dtype=x.dtype).scatter_reduce(0, dst, score, "amax")
        e = torch.exp(score - top[dst])
        total = torch.zeros(x.shape[0], dtype=x.dtype).index_add(0, dst, e)
        alpha = e / total[dst]
        return torch.zeros_like(v).index_add(0, dst, alpha[:, None] * v[src])

"""Graph attention over depots and roads (Velickovic et al. 2018), sparse edges.

edge_index[0] are senders, edge_index[1] are receivers.  Every node also listens to
itself (a self loop is appended here, do not put it in edge_index).  For each receiver
the coefficients over its incoming edges sum to one.
"""
import torch
from torch import nn, Tensor
import torch.nn.functional as F


def segment_softmax(logits: Tensor, segment: Tensor, n: int) -> Tensor:
    """Softmax of logits [E, H] over the edges with the same segment id."""
    idx = segment.unsqueeze(-1).expand_as(logits)
    top = logits.new_full((n, logits.size(1)), float("-inf"))
    top = top.scatter_reduce(0, idx, logits, reduce="amax")
    e = torch.exp(logits - top.detach()[segment])
    total = e.new_zeros(n, e.size(1)).index_add(0, segment, e)
    return e / total[segment]


class GATLayer(nn.Module):
    def __init__(self, in_dim: int, out_dim: int, heads: int, concat: bool = True, slope: float = 0.2):
        super().__init__()
        self.heads, self.out_dim, self.concat, self.slope = heads, out_dim, concat, slope
        self.lin = nn.Linear(in_dim, heads * out_dim, bias=False)
        self.att_src = nn.Parameter(torch.empty(heads, out_dim))
        self.att_dst = nn.Parameter(torch.empty(heads, out_dim))
        self.bias = nn.Parameter(torch.zeros(heads * out_dim if concat else out_dim))
        nn.init.xavier_uniform_(self.lin.weight)
        nn.init.xavier_uniform_(self.att_src)
        nn.init.xavier_uniform_(self.att_dst)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        n = x.size(0)
        loops = torch.arange(n, device=x.device)
        src = torch.cat([edge_index[0], loops])
        dst = torch.cat([edge_index[1], loops])

        h = self.lin(x).view(n, self.heads, self.out_dim)
        a_src = (h * self.att_src).sum(-1)       # [n, heads]
        a_dst = (h * self.att_dst).sum(-1)
        e = F.leaky_relu(a_src[src] + a_dst[dst], self.slope)
        alpha = segment_softmax(e, dst, n)

        msg = alpha.unsqueeze(-1) * h[src]
        out = h.new_zeros(n, self.heads, self.out_dim).index_add(0, dst, msg)
        out = out.flatten(1) if self.concat else out.mean(1)
        return out + self.bias


class DepotNet(nn.Module):
    """Predicts tomorrow's load per depot from the road graph."""

    def __init__(self, in_dim: int = 6, hidden: int = 8, heads: int = 3):
        super().__init__()
        self.gat1 = GATLayer(in_dim, hidden, heads)
        self.gat2 = GATLayer(hidden * heads, 1, heads, concat=False)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = F.elu(self.gat1(x, edge_index))
        return self.gat2(x, edge_index).squeeze(-1)

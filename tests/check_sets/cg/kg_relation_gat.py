"""Relational graph attention for the supplier knowledge graph.

An edge (src, rel, dst) sends a message from ``src`` to ``dst``.  For every
head the logit of an edge is

    LeakyReLU( a_dst . W h_dst  +  a_src . W h_src  +  b[rel] )

and the logits are normalised over all the edges that *arrive* at ``dst``.
Entities without incoming edges keep their own features (residual only).
"""
import torch
from torch import nn


def segment_softmax(logit: torch.Tensor, seg: torch.Tensor, n: int) -> torch.Tensor:
    """Softmax of ``logit`` [E, H] within the groups given by ``seg`` [E]."""
    top = logit.new_full((n, logit.shape[1]), float("-inf"))
    idx = seg[:, None].expand_as(logit)
    top = top.scatter_reduce(0, idx, logit, reduce="amax")
    e = torch.exp(logit - top[seg])
    z = torch.zeros_like(top).index_add(0, seg, e)
    return e / z[seg]


class RelationalGAT(nn.Module):
    def __init__(self, dim: int, n_rel: int, heads: int = 4, slope: float = 0.2):
        super().__init__()
        if dim % heads:
            raise ValueError("dim must be a multiple of heads")
        self.heads, self.d = heads, dim // heads
        self.lin = nn.Linear(dim, dim, bias=False)
        self.a_src = nn.Parameter(torch.empty(heads, self.d))
        self.a_dst = nn.Parameter(torch.empty(heads, self.d))
        self.rel_bias = nn.Embedding(n_rel, heads)
        self.act = nn.LeakyReLU(slope)
        self.out = nn.Linear(dim, dim)
        nn.init.xavier_uniform_(self.a_src)
        nn.init.xavier_uniform_(self.a_dst)

    def forward(self, h, edge_index, edge_type):
        n = h.size(0)
        src, dst = edge_index[0], edge_index[1]
        z = self.lin(h).view(n, self.heads, self.d)
        s_src = (z * self.a_src).sum(-1)
        s_dst = (z * self.a_dst).sum(-1)
        logit = self.act(s_src[src] + s_dst[dst] + self.rel_bias(edge_type))
        alpha = segment_softmax(logit, dst, n)
        msg = alpha.unsqueeze(-1) * z[src]
        agg = torch.zeros_like(z).index_add(0, dst, msg)
        has_in = torch.zeros(n, dtype=torch.bool, device=h.device)
        has_in[dst] = True
        upd = self.out(agg.reshape(n, -1)) * has_in[:, None]
        return h + upd

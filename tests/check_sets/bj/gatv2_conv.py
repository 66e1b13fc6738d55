"""GATv2 convolution without torch_geometric (molecule property models).

For every edge j -> i and head h
    e_ij = a_h . leaky_relu(W_l x_j + W_r x_i + W_e f_ij)
    alpha_ij = softmax of e_ij over the incoming edges of i
    out_i = sum_j alpha_ij W_l x_j
"""
from typing import Optional

import torch
from torch import Tensor, nn
import torch.nn.functional as F


def segment_max(src: Tensor, idx: Tensor, n: int) -> Tensor:
    out = src.new_full((n, src.size(1)), float("-inf"))
    return out.scatter_reduce(0, idx[:, None].expand_as(src), src, "amax")


def segment_sum(src: Tensor, idx: Tensor, n: int) -> Tensor:
    return src.new_zeros((n,) + src.shape[1:]).index_add(0, idx, src)


def edge_softmax(e: Tensor, dst: Tensor, n: int) -> Tensor:
    e = (e - segment_max(e.detach(), dst, n)[dst]).exp()
    return e / segment_sum(e, dst, n)[dst]


class GATv2Conv(nn.Module):
    """edge_index [2, E] holds (source, target) rows; optional edge features.

    Self loops are added (edge features of a loop: mean of the incoming ones).
    """

    def __init__(self, in_dim, out_dim, heads=2, edge_dim: Optional[int] = None,
                 slope=0.2, concat=True, dropout=0.0):
        super().__init__()
        self.heads, self.out_dim, self.slope, self.concat = heads, out_dim, slope, concat
        self.lin_l = nn.Linear(in_dim, heads * out_dim)
        self.lin_r = nn.Linear(in_dim, heads * out_dim)
        self.lin_e = nn.Linear(edge_dim, heads * out_dim, bias=False) if edge_dim else None
        self.att = nn.Parameter(torch.empty(heads, out_dim))
        nn.init.xavier_uniform_(self.att)
        self.bias = nn.Parameter(torch.zeros(heads * out_dim if concat else out_dim))
        self.drop = nn.Dropout(dropout)

    def _with_loops(self, ei, ef, n):
        loop = torch.arange(n, device=ei.device)
        if ef is not None:
            deg = segment_sum(torch.ones_like(ef[:, :1]), ei[1], n).clamp_min(1)
            ef = torch.cat([ef, segment_sum(ef, ei[1], n) / deg])
        return torch.cat([ei, torch.stack([loop, loop])], 1), ef

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Optional[Tensor] = None):
        n = x.size(0)
        ei, ef = self._with_loops(edge_index, edge_attr, n)
        src, dst = ei
        xl = self.lin_l(x).view(n, self.heads, self.out_dim)
        xr = self.lin_r(x).view(n, self.heads, self.out_dim)
        z = xl[src] + xr[dst]
        if self.lin_e is not None and ef is not None:
            z = z + self.lin_e(ef).view(-1, self.heads, self.out_dim)
        e = (F.leaky_relu(z, self.slope) * self.att).sum(-1)
        alpha = self.drop(edge_softmax(e, dst, n))
        out = segment_sum(xl[src] * alpha[..., None], dst, n)
        out = out.flatten(1) if self.concat else out.mean(1)
        return out + self.bias


class MolNet(nn.Module):
    def __init__(self, atom=9, bond=3, width=16):
        super().__init__()
        self.c1 = GATv2Conv(atom, width, 2, bond)
        self.c2 = GATv2Conv(2 * width, width, 2, bond, concat=False)
        self.head = nn.Linear(width, 1)

    def forward(self, x, ei, ef, batch):
        h = F.elu(self.c1(x, ei, ef))
        h = F.elu(self.c2(h, ei, ef))
        return self.head(segment_sum(h, batch, int(batch.max()) + 1)).squeeze(-1)

"""GATv2 over an edge list, no torch_geometric needed.

edge_index is (2, E): row 0 the sender j, row 1 the receiver i. The attention of a receiver is
normalised over its incoming edges.
"""
import torch
import torch.nn as nn


def segment_softmax(src: torch.Tensor, index: torch.Tensor, n: int) -> torch.Tensor:
    """Softmax of src (E, H) within groups of equal index."""
    idx = index[:, None].expand_as(src)
    peak = src.new_full((n, src.size(1)), float("-inf"))
    peak = peak.scatter_reduce(0, idx, src.detach(), reduce="amax", include_self=True)
    ex = (src - peak[index]).exp()
    tot = ex.new_zeros(n, src.size(1)).scatter_add(0, idx, ex)
    return ex / tot[index]


def add_self_loops(edge_index: torch.Tensor, n: int) -> torch.Tensor:
    keep = edge_index[0] != edge_index[1]
    loop = torch.arange(n, device=edge_index.device)
    return torch.cat([edge_index[:, keep], torch.stack([loop, loop])], dim=1)


class GATv2Layer(nn.Module):
    def __init__(self, in_dim, out_dim, heads=4, concat=True, slope=0.2, dropout=0.0):
        super().__init__()
        self.h, self.d, self.concat = heads, out_dim, concat
        self.lin_l = nn.Linear(in_dim, heads * out_dim)     # for senders
        self.lin_r = nn.Linear(in_dim, heads * out_dim)     # for receivers
        self.att = nn.Parameter(torch.empty(heads, out_dim))
        self.act = nn.LeakyReLU(slope)
        self.drop = nn.Dropout(dropout)
        self.bias = nn.Parameter(torch.zeros(heads * out_dim if concat else out_dim))
        nn.init.xavier_uniform_(self.att)

    def forward(self, x, edge_index, return_attention=False):
        n = x.size(0)
        edge_index = add_self_loops(edge_index, n)
        j, i = edge_index
        xl = self.lin_l(x).view(n, self.h, self.d)
        xr = self.lin_r(x).view(n, self.h, self.d)
        # v2: the nonlinearity comes before the dot product with `att`
        e = (self.act(xl[j] + xr[i]) * self.att).sum(-1)
        alpha = segment_softmax(e, i, n)
        msg = xl[j] * self.drop(alpha).unsqueeze(-1)
        out = torch.zeros_like(xl).index_add(0, i, msg)
        out = out.flatten(1) if self.concat else out.mean(1)
        out = out + self.bias
        return (out, alpha, edge_index) if return_attention else out


class GATv2(nn.Module):
    def __init__(self, in_dim, hid, n_cls, heads=4):
        super().__init__()
        self.l1 = GATv2Layer(in_dim, hid, heads)
        self.l2 = GATv2Layer(heads * hid, n_cls, heads=1, concat=False)

    def forward(self, x, edge_index):
        return self.l2(torch.nn.functional.elu(self.l1(x, edge_index)), edge_index)

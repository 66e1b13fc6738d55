"""GAT layer on an edge list, without torch_geometric.

edge_index[0] = source, edge_index[1] = destination. Self loops are added here.
"""
import torch
from torch import nn
import torch.nn.functional as F


def seg_softmax(e, dst, n):
    """softmax of e [E, H] over the edges sharing a destination."""
    ix = dst[:, None].expand_as(e)
    top = torch.full((n, e.size(1)), float("-inf"), dtype=e.dtype, device=e.device)
    top = top.scatter_reduce(0, ix, e.detach(), "amax")
    z = (e - top[dst]).exp()
    tot = torch.zeros_like(top).index_add(0, dst, z)
    return z / tot[dst]


class EdgeGAT(nn.Module):
    def __init__(self, fin=8, fout=5, heads=3, neg=0.2, p=0.0, concat=True):
        super().__init__()
        self.h, self.f = heads, fout
        self.lin = nn.Linear(fin, heads * fout, bias=False)
        self.a_src = nn.Parameter(torch.empty(heads, fout))
        self.a_dst = nn.Parameter(torch.empty(heads, fout))
        self.bias = nn.Parameter(torch.zeros(heads * fout if concat else fout))
        nn.init.xavier_uniform_(self.a_src)
        nn.init.xavier_uniform_(self.a_dst)
        self.neg, self.p, self.concat = neg, p, concat

    def forward(self, x, edge_index):
        n = x.size(0)
        loops = torch.arange(n, device=x.device)
        src = torch.cat([edge_index[0], loops])
        dst = torch.cat([edge_index[1], loops])
        z = self.lin(x).view(n, self.h, self.f)
        # a^T [z_i || z_j] = a_dst.z_i + a_src.z_j : done on nodes, not on edges
        e = (z * self.a_dst).sum(-1)[dst] + (z * self.a_src).sum(-1)[src]
        w = seg_softmax(F.leaky_relu(e, self.neg), dst, n)
        w = F.dropout(w, self.p, self.training)
        out = torch.zeros_like(z).index_add(0, dst, w[..., None] * z[src])
        out = out.flatten(1) if self.concat else out.mean(1)
        return out + self.bias

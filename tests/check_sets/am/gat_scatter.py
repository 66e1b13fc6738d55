"""Graph attention (GATv2) with index_add / scatter_reduce only; no torch_geometric needed."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def segment_softmax(logits, seg, n):
    """softmax of logits [E, H] within the groups given by seg [E]"""
    idx = seg[:, None].expand_as(logits)
    top = torch.full((n, logits.size(1)), float("-inf"), dtype=logits.dtype, device=logits.device)
    top = top.scatter_reduce(0, idx, logits, "amax", include_self=True)
    e = (logits - top.detach()[seg]).exp()
    z = torch.zeros_like(top).index_add(0, seg, e)
    return e / z[seg]


def with_self_loops(edge, n):
    loop = torch.arange(n, device=edge.device)
    edge = edge[:, edge[0] != edge[1]]
    return torch.cat([edge, loop.expand(2, n)], 1)


class GATv2Layer(nn.Module):
    """edge_index [2, E]: row 0 = source j, row 1 = target i. A target averages over its sources."""

    def __init__(self, c_in, c_out, heads=4, concat=True, slope=0.2, dropout=0.0):
        super().__init__()
        self.heads, self.c, self.concat, self.slope, self.p = heads, c_out, concat, slope, dropout
        self.lin_l = nn.Linear(c_in, heads * c_out)
        self.lin_r = nn.Linear(c_in, heads * c_out)
        self.att = nn.Parameter(torch.empty(1, heads, c_out))
        self.bias = nn.Parameter(torch.zeros(heads * c_out if concat else c_out))
        nn.init.xavier_uniform_(self.att)

    def forward(self, x, edge_index, return_alpha=False):
        n = x.size(0)
        edge_index = with_self_loops(edge_index, n)
        src, dst = edge_index
        xl = self.lin_l(x).view(n, self.heads, self.c)
        xr = self.lin_r(x).view(n, self.heads, self.c)
        e = (F.leaky_relu(xl[src] + xr[dst], self.slope) * self.att).sum(-1)
        alpha = segment_softmax(e, dst, n)
        a = F.dropout(alpha, self.p, self.training)
        out = x.new_zeros(n, self.heads, self.c).index_add(0, dst, a[..., None] * xl[src])
        out = out.flatten(1) if self.concat else out.mean(1)
        out = out + self.bias
        return (out, alpha) if return_alpha else out


class MoleculeNet(nn.Module):
    def __init__(self, atom_types=20, dim=16, heads=4, layers=3):
        super().__init__()
        self.emb = nn.Embedding(atom_types, dim * heads)
        self.convs = nn.ModuleList(GATv2Layer(dim * heads, dim, heads) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(dim * heads) for _ in range(layers))
        self.out = nn.Linear(dim * heads, 1)

    def forward(self, z, edge_index, batch):
        x = self.emb(z)
        for conv, norm in zip(self.convs, self.norms):
            x = x + F.elu(conv(norm(x), edge_index))
        n_graphs = int(batch.max()) + 1
        pooled = x.new_zeros(n_graphs, x.size(1)).index_add(0, batch, x)
        return self.out(pooled).squeeze(-1)

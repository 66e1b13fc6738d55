# -*- coding: utf-8 -*-
"""
bond_gat.py -- GATv2 over molecular graphs with bond features, no torch_geometric needed.

Graph format (same as our .pt shards):
    x           [N, F]    atom features, all molecules of the batch stacked
    edge_index  [2, E]    row 0 = source atom, row 1 = target atom
    edge_attr   [E, Fb]   bond type / conjugation / ring flags
    batch       [N]       molecule number of each atom
Messages go source -> target, so every target normalises over its incoming bonds.
"""
import torch
from torch import nn
import torch.nn.functional as F


def segment_sum(src, index, n):
    out = src.new_zeros((n,) + tuple(src.shape[1:]))
    return out.index_add_(0, index, src)


def segment_max(src, index, n):
    out = src.new_full((n,) + tuple(src.shape[1:]), float("-inf"))
    idx = index.view(-1, *([1] * (src.dim() - 1))).expand_as(src)
    return out.scatter_reduce(0, idx, src, reduce="amax", include_self=True)


def segment_softmax(src, index, n):
    """softmax of src inside the groups that index gives."""
    peak = segment_max(src.detach(), index, n)
    e = torch.exp(src - peak[index])
    return e / segment_sum(e, index, n)[index]


def with_self_loops(edge_index, edge_attr, n):
    """adds i -> i for each atom; its bond features are the mean of the incoming ones"""
    loop = torch.arange(n, device=edge_index.device)
    deg = segment_sum(torch.ones_like(edge_attr[:, :1]), edge_index[1], n).clamp(min=1)
    mean_attr = segment_sum(edge_attr, edge_index[1], n) / deg
    return torch.cat([edge_index, loop.expand(2, -1)], 1), torch.cat([edge_attr, mean_attr], 0)


class BondGATv2(nn.Module):
    """alpha_ij = softmax_j a^T LeakyReLU(Wt x_i + Ws x_j + We e_ij)"""

    def __init__(self, in_dim, out_dim, bond_dim, heads=4, slope=0.2, drop=0.0):
        super().__init__()
        assert out_dim % heads == 0
        self.h, self.c = heads, out_dim // heads
        self.lin_src = nn.Linear(in_dim, out_dim)
        self.lin_dst = nn.Linear(in_dim, out_dim)
        self.lin_bond = nn.Linear(bond_dim, out_dim, bias=False)
        self.att = nn.Parameter(torch.empty(1, heads, self.c))
        self.bias = nn.Parameter(torch.zeros(out_dim))
        self.slope, self.drop = slope, drop
        nn.init.xavier_uniform_(self.att)

    def forward(self, x, edge_index, edge_attr, return_alpha=False):
        n = x.size(0)
        edge_index, edge_attr = with_self_loops(edge_index, edge_attr, n)
        src, dst = edge_index

        xs = self.lin_src(x).view(n, self.h, self.c)
        xt = self.lin_dst(x).view(n, self.h, self.c)
        xe = self.lin_bond(edge_attr).view(-1, self.h, self.c)

        z = F.leaky_relu(xt[dst] + xs[src] + xe, self.slope)
        e = (z * self.att).sum(-1)                       # [E, H]
        alpha = segment_softmax(e, dst, n)
        msg = xs[src] * F.dropout(alpha, self.drop, self.training).unsqueeze(-1)
        out = segment_sum(msg, dst, n).reshape(n, self.h * self.c) + self.bias
        return (out, alpha) if return_alpha else out


class Readout(nn.Module):
    """gated sum over the atoms of each molecule"""

    def __init__(self, dim):
        super().__init__()
        self.gate = nn.Linear(dim, 1)
        self.feat = nn.Linear(dim, dim)

    def forward(self, x, batch):
        n_mol = int(batch.max()) + 1
        return segment_sum(torch.sigmoid(self.gate(x)) * self.feat(x), batch, n_mol)


class SolubilityNet(nn.Module):
    def __init__(self, atom_dim=32, bond_dim=6, hidden=64, layers=3):
        super().__init__()
        self.inp = nn.Linear(atom_dim, hidden)
        self.convs = nn.ModuleList([BondGATv2(hidden, hidden, bond_dim) for _ in range(layers)])
        self.norms = nn.ModuleList([nn.LayerNorm(hidden) for _ in range(layers)])
        self.readout = Readout(hidden)
        self.out = nn.Linear(hidden, 1)

    def forward(self, x, edge_index, edge_attr, batch):
        h = self.inp(x)
        for conv, norm in zip(self.convs, self.norms):
            h = h + F.elu(conv(norm(h), edge_index, edge_attr))
        return self.out(self.readout(h, batch)).squeeze(-1)

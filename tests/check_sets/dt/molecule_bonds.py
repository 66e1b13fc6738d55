"""Attention over bonds for a molecule property model.

Each atom gathers what its bonded neighbours send: for a directed bond list
bond = (2, E) with bond[0] = neighbour u and bond[1] = atom w (each chemical bond is there in
both directions), the message to w is

    m_w = sum_u softmax_u( a(q_w, k_u, bond type) ) * value(x_u)

with a(q, k, t) = (q . k) / sqrt(d) + c[t]. Atoms of all molecules of a batch are numbered
through; `mol` (N,) tells the molecule of each atom. The readout is the sum of the atoms.
"""
import torch
import torch.nn as nn


class BondAttention(nn.Module):
    def __init__(self, dim, n_bond_types=4):
        super().__init__()
        self.dim = dim
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.type_bias = nn.Embedding(n_bond_types, 1)

    def forward(self, x, bond, bond_type):
        u, w = bond
        n = x.size(0)
        q, k, val = self.query(x), self.key(x), self.value(x)
        a = (q[w] * k[u]).sum(-1) / self.dim ** 0.5 + self.type_bias(bond_type).squeeze(-1)
        peak = torch.full((n,), -torch.inf, dtype=a.dtype).scatter_reduce(0, w, a, "amax")
        ex = (a - peak[w]).exp()
        z = torch.zeros(n, dtype=a.dtype).index_add(0, w, ex)
        p = ex / z[w]
        sent = val.index_select(0, w) * p[:, None]
        return torch.zeros_like(val).index_add(0, w, sent)


class MoleculeNet(nn.Module):
    def __init__(self, dim=32, layers=2):
        super().__init__()
        self.layers = nn.ModuleList(BondAttention(dim) for _ in range(layers))
        self.update = nn.GRUCell(dim, dim)
        self.head = nn.Linear(dim, 1)

    def forward(self, x, bond, bond_type, mol, n_mol):
        for layer in self.layers:
            x = self.update(layer(x, bond, bond_type), x)
        pooled = torch.zeros(n_mol, x.size(1), dtype=x.dtype).index_add(0, mol, x)
        return self.head(pooled).squeeze(-1)

"""Attention pooling of atoms to a molecule vector (solubility regression, ESOL).

pad: (B, A) bool, True for the dummy atoms that fill up the batch.
"""
import torch
import torch.nn as nn


class AtomPool(nn.Module):
    """Several learned queries ask all atoms of a molecule; scaled dot product."""

    def __init__(self, dim=24, n_queries=3):
        super().__init__()
        self.queries = nn.Parameter(torch.randn(n_queries, dim))
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.scale = dim ** -0.5

    def forward(self, atoms, pad):
        k = self.key(atoms)
        v = self.value(atoms)
        scores = torch.einsum("qd,bad->bqa", self.queries, k) / self.scale
        keep = pad.logical_not_()
        scores = scores.masked_fill(~keep[:, None, :], float("-inf"))
        w = torch.softmax(scores, dim=-1)
        return torch.einsum("bqa,bad->bqd", w, v).flatten(1)


class Message(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.lin = nn.Linear(2 * dim, dim)

    def forward(self, h, bonds):
        return h + torch.relu(self.lin(torch.cat([h, bonds @ h], -1)))


class SolubilityNet(nn.Module):
    def __init__(self, n_elements=20, dim=24, steps=2):
        super().__init__()
        self.emb = nn.Embedding(n_elements, dim)
        self.steps = nn.ModuleList(Message(dim) for _ in range(steps))
        self.pool = AtomPool(dim)
        self.out = nn.Linear(3 * dim, 1)

    def forward(self, z, bonds, pad):
        h = self.emb(z)
        for m in self.steps:
            h = m(h, bonds)
        return self.out(self.pool(h, pad)).squeeze(-1)


def collate(mols):
    n = max(len(z) for z, _ in mols)
    z = torch.zeros(len(mols), n, dtype=torch.long)
    bonds = torch.zeros(len(mols), n, n)
    pad = torch.ones(len(mols), n, dtype=torch.bool)
    for i, (zi, bi) in enumerate(mols):
        z[i, :len(zi)] = torch.tensor(zi)
        bonds[i, :len(zi), :len(zi)] = torch.as_tensor(bi, dtype=torch.float)
        pad[i, :len(zi)] = False
    return z, bonds, pad

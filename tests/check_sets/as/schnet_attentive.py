"""SchNet-like interaction blocks with attention over neighbour lists.

Edges are two index vectors (i <- j). The cosine cutoff enters in log space, i.e. the
weight of an edge is proportional to f_cut(r) * exp(q_i . k_j / sqrt(d) + b(r)), normalised
over the neighbours of atom i; an atom without neighbours gets a zero message.
"""
import math

import torch
from torch import nn


def cosine_cutoff(r, r_max):
    return torch.where(r < r_max, 0.5 * (torch.cos(r * math.pi / r_max) + 1.0), torch.zeros_like(r))


class GaussianSmearing(nn.Module):
    def __init__(self, start, stop, n):
        super().__init__()
        centers = torch.linspace(start, stop, n)
        self.register_buffer("centers", centers)
        self.coeff = -0.5 / float(centers[1] - centers[0]) ** 2

    def forward(self, r):
        return torch.exp(self.coeff * (r[:, None] - self.centers) ** 2)


def scatter_softmax(logits, weight, index, n):
    """weight * exp(logits), normalised within the groups of `index`. Both [E, H]."""
    idx = index[:, None].expand_as(logits)
    top = logits.new_full((n, logits.shape[1]), float("-inf"))
    top = top.scatter_reduce(0, idx, logits, reduce="amax", include_self=True)
    e = weight * torch.exp(logits - top[index])
    z = torch.zeros_like(top).scatter_add(0, idx, e)
    return e / z[index].clamp_min(torch.finfo(e.dtype).tiny)


class AttentiveInteraction(nn.Module):
    def __init__(self, n_atom_basis, n_rbf, n_heads, cutoff_fn):
        super().__init__()
        self.h, self.d = n_heads, n_atom_basis // n_heads
        self.in_q = nn.Linear(n_atom_basis, n_atom_basis, bias=False)
        self.in_k = nn.Linear(n_atom_basis, n_atom_basis, bias=False)
        self.in_v = nn.Linear(n_atom_basis, n_atom_basis)
        self.filter_bias = nn.Linear(n_rbf, n_heads)
        self.filter_gate = nn.Linear(n_rbf, n_atom_basis)
        self.out = nn.Sequential(nn.Linear(n_atom_basis, n_atom_basis), nn.SiLU(), nn.Linear(n_atom_basis, n_atom_basis))
        self.cutoff_fn = cutoff_fn

    def forward(self, x, r_ij, f_ij, idx_i, idx_j):
        n = x.shape[0]
        q = self.in_q(x).view(n, self.h, self.d)
        k = self.in_k(x).view(n, self.h, self.d)
        logits = (q[idx_i] * k[idx_j]).sum(-1) / self.d**0.5 + self.filter_bias(f_ij)
        a = scatter_softmax(logits, self.cutoff_fn(r_ij)[:, None], idx_i, n)
        v = (self.in_v(x)[idx_j] * self.filter_gate(f_ij)).view(-1, self.h, self.d)
        m = x.new_zeros(n, self.h, self.d).index_add(0, idx_i, a[..., None] * v)
        return self.out(m.flatten(1))


class AttentiveSchNet(nn.Module):
    def __init__(self, n_atom_basis=32, n_interactions=3, n_heads=4, n_rbf=20, r_max=5.0, max_z=100):
        super().__init__()
        self.embedding = nn.Embedding(max_z, n_atom_basis, padding_idx=0)
        self.rbf = GaussianSmearing(0.0, r_max, n_rbf)
        cut = lambda r: cosine_cutoff(r, r_max)
        self.interactions = nn.ModuleList(AttentiveInteraction(n_atom_basis, n_rbf, n_heads, cut) for _ in range(n_interactions))
        self.head = nn.Sequential(nn.Linear(n_atom_basis, n_atom_basis // 2), nn.SiLU(), nn.Linear(n_atom_basis // 2, 1))

    def forward(self, z, pos, idx_i, idx_j, idx_m, n_mol):
        r = (pos[idx_i] - pos[idx_j]).norm(dim=-1)
        f = self.rbf(r)
        x = self.embedding(z)
        for inter in self.interactions:
            x = x + inter(x, r, f, idx_i, idx_j)
        return x.new_zeros(n_mol).index_add(0, idx_m, self.head(x).squeeze(-1))

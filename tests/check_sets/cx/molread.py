"""Readout of a batch of molecules."""
import torch
import torch.nn as nn


class MolRead(nn.Module):
    """Set2Set (Vinyals et al. 2016). atoms [n_atoms, d], owner [n_atoms] = index of the molecule
    (any order), n_mol molecules. Returns [n_mol, 2 d]; molecules without atoms read a zero."""

    def __init__(self, d, rounds=3):
        super().__init__()
        self.d, self.rounds = d, rounds
        self.cell = nn.LSTMCell(2 * d, d)

    def forward(self, atoms, owner, n_mol):
        h = atoms.new_zeros(n_mol, self.d)
        c = atoms.new_zeros(n_mol, self.d)
        star = atoms.new_zeros(n_mol, 2 * self.d)
        for _ in range(self.rounds):
            h, c = self.cell(star, (h, c))
            energy = (atoms * h[owner]).sum(dim=1)
            peak = atoms.new_full((n_mol,), float("-inf"))
            peak = peak.scatter_reduce(0, owner, energy.detach(), reduce="amax")
            w = (energy - peak[owner]).exp()
            total = atoms.new_zeros(n_mol).index_add(0, owner, w)
            w = w / total[owner]
            read = atoms.new_zeros(n_mol, self.d).index_add(0, owner, w[:, None] * atoms)
            star = torch.cat([h, read], dim=1)
        return star

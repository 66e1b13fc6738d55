"""Graph transformer over padded batches of molecules."""
import torch
import torch.nn as nn


class Molgraf(nn.Module):
    """atoms (B, N, dim), bonds (B, N, N) bool, True where two atoms are bonded (with self loops).

    Every atom attends to the atoms it is bonded to in its own molecule. Heads are folded into
    the batch for bmm.
    """

    def __init__(self, dim=24, heads=4):
        super().__init__()
        self.heads, self.d = heads, dim // heads
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.o = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)

    def fold(self, x):
        B, N, _ = x.shape
        return x.view(B, N, self.heads, self.d).transpose(1, 2).reshape(B * self.heads, N, self.d)

    def forward(self, atoms, bonds):
        B, N, D = atoms.shape
        z = self.norm(atoms)
        q, k, v = self.fold(self.q(z)), self.fold(self.k(z)), self.fold(self.v(z))
        s = torch.bmm(q, k.transpose(1, 2)) / self.d ** 0.5
        keep = bonds.repeat(self.heads, 1, 1)
        s = s.masked_fill(~keep, torch.finfo(s.dtype).min)
        y = torch.bmm(torch.softmax(s, dim=-1), v)
        y = y.view(B, self.heads, N, self.d).transpose(1, 2).reshape(B, N, D)
        return atoms + self.o(y)

"""Property head for small molecules: atoms exchange messages weighted by chemistry and geometry."""
import math
import torch
from torch import nn

DEFAULTS = dict(hidden=24, heads=3, gauss=8, cutoff=6.0)


class AtomExchange(nn.Module):
    """
    atoms  (B, N, hidden)  atom embeddings
    coords (B, N, 3)       positions in angstrom
    real   (B, N) bool     False for padding atoms; every molecule has at least one atom
    ->     (B, N, hidden), zero rows at the padding atoms
    """

    def __init__(self, hp=None):
        super().__init__()
        hp = {**DEFAULTS, **(hp or {})}
        self.h = hp["heads"]
        self.q = nn.Linear(hp["hidden"], hp["hidden"])
        self.k = nn.Linear(hp["hidden"], hp["hidden"])
        self.v = nn.Linear(hp["hidden"], hp["hidden"])
        self.o = nn.Linear(hp["hidden"], hp["hidden"])
        self.register_buffer("mu", torch.linspace(0, hp["cutoff"], hp["gauss"]))
        self.width = hp["cutoff"] / hp["gauss"]
        self.rbf = nn.Linear(hp["gauss"], self.h)

    def heads(self, t):
        return t.unflatten(-1, (self.h, -1)).transpose(1, 2)

    def forward(self, atoms, coords, real):
        q, k, v = self.heads(self.q(atoms)), self.heads(self.k(atoms)), self.heads(self.v(atoms))
        gap = (coords[:, :, None] - coords[:, None]).norm(dim=-1)
        basis = torch.exp(-((gap[..., None] - self.mu) / self.width) ** 2)
        s = torch.einsum("bhid,bhjd->bhij", q, k) / math.sqrt(q.shape[-1])
        s = s + self.rbf(basis).permute(0, 3, 1, 2)
        s = s.masked_fill(~real[:, None, None, :], float("-inf"))
        m = torch.einsum("bhij,bhjd->bihd", s.softmax(-1), v).flatten(2)
        return self.o(m) * real[..., None]

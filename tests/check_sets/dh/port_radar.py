"""Track-to-track association in the harbour radar."""
import torch
from torch import nn


class TrackAssociator(nn.Module):
    """tracks (B, n, dim), alive (B, n) bool -> (B, n, dim)

    Logits are kept in (-cap, cap) by a smooth tanh cap; dead tracks are never consulted.
    At least one track is alive.
    """

    def __init__(self, dim: int = 24, heads: int = 4, cap: float = 5.0):
        super().__init__()
        self.h, self.d, self.cap = heads, dim // heads, cap
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.o = nn.Linear(dim, dim)

    def split(self, z):
        return z.view(z.shape[0], self.h, z.shape[1], self.d)

    def forward(self, tracks, alive):
        q, k, v = self.split(self.q(tracks)), self.split(self.k(tracks)), self.split(self.v(tracks))
        s = torch.einsum("bhid,bhjd->bhij", q, k) * self.d ** -0.5
        s = s.masked_fill(~alive[:, None, None, :], float("-inf"))
        s = self.cap * torch.tanh(s / self.cap)
        w = s.softmax(dim=-1)
        y = torch.einsum("bhij,bhjd->bihd", w, v)
        return self.o(y.flatten(2))

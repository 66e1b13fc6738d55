"""Cosine attention between two aerial photographs, for tie-point proposals."""
import torch
from torch import nn
import torch.nn.functional as F


class SceneMatcher(nn.Module):
    """a (B, N, dim), b (B, M, dim) -> a enriched by b (B, N, dim).

    Per head: softmax over b of tau * cos(query, key), tau learned.
    """

    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(dim, dim, bias=False)
        self.k = nn.Linear(dim, dim, bias=False)
        self.v = nn.Linear(dim, dim, bias=False)
        self.o = nn.Linear(dim, dim)
        self.tau = nn.Parameter(torch.full((heads, 1, 1), 8.0))

    def split(self, z):
        return z.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, a, b):
        q, k, v = self.split(self.q(a)), self.split(self.k(b)), self.split(self.v(b))
        q, k = F.normalize(q), F.normalize(k)
        w = torch.softmax(self.tau * (q @ k.transpose(-1, -2)), dim=-1)
        y = (w @ v).transpose(1, 2).flatten(2)
        return a + self.o(y)

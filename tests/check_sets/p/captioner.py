import torch
from torch import nn


class RegionAttention(nn.Module):
    """Words (B, T, dim) attend to image regions (B, R, dim); region_pad (B, R) bool is True for empty slots, which get no weight."""

    def __init__(self, dim=16, heads=4):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)

    def forward(self, words, regions, region_pad):
        b, t, d = words.shape
        q = self.q(words).view(b, t, self.heads, -1)
        k = self.k(regions).view(b, -1, self.heads, d // self.heads)
        v = self.v(regions).view(b, -1, self.heads, d // self.heads)
        score = torch.einsum("bthd,brhd->bhtr", q, k) / (d // self.heads) ** 0.5
        score.masked_fill(region_pad[:, None, None, :], -1e4)
        prob = score
        return torch.einsum("bhtr,brhd->bthd", prob, v).flatten(2)

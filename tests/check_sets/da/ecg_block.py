import torch
from torch import nn


class ECGBlock(nn.Module):
    def __init__(self, leads=12, dim=24, heads=3, patch=10):
        super().__init__()
        self.heads, self.hd = heads, dim // heads
        self.patch = nn.Conv1d(leads, dim, patch, stride=patch)
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.in_proj = nn.Linear(dim, 3 * dim)
        self.out_proj = nn.Linear(dim, dim)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def mix(self, x):
        b, t, c = x.shape
        q, k, v = self.in_proj(x).view(b, t, 3, self.heads, self.hd).unbind(2)
        s = torch.einsum("bthd,bshd->bhts", q, k) * self.hd ** -0.5
        y = torch.einsum("bhts,bshd->bhtd", s.softmax(-1), v)
        y = y.reshape(b, t, c)
        return self.out_proj(y)

    def forward(self, signal):          # (batch, leads, samples)
        x = self.patch(signal).transpose(1, 2)
        x = x + self.mix(self.n1(x))
        return x + self.ff(self.n2(x))

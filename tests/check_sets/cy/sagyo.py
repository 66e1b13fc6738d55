import torch
from torch import nn


def tatamu(x, h):
    """(B, L, h*d) -> (B*h, L, d)"""
    B, L, D = x.shape
    return x.view(B, L, h, D // h).transpose(1, 2).reshape(B * h, L, D // h)


def hiraku(x, h):
    """tatamu no gyaku: (B*h, L, d) -> (B, L, h*d)"""
    n, L, d = x.shape
    return x.view(h, n // h, L, d).permute(1, 2, 0, 3).reshape(n // h, L, h * d)


class Sagyo(nn.Module):
    """Kojo no sensa keiretsu you encoder block (post-norm)."""

    def __init__(self, dim, h, pdrop=0.1):
        super().__init__()
        self.h = h
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.ReLU(), nn.Dropout(pdrop), nn.Linear(4 * dim, dim))
        self.drop = nn.Dropout(pdrop)

    def forward(self, x):
        q, k, v = tatamu(self.q(x), self.h), tatamu(self.k(x), self.h), tatamu(self.v(x), self.h)
        s = torch.bmm(q, k.transpose(1, 2)) / q.shape[-1] ** 0.5
        y = hiraku(torch.bmm(self.drop(s.softmax(-1)), v), self.h)
        x = self.n1(x + self.drop(self.o(y)))
        return self.n2(x + self.drop(self.mlp(x)))

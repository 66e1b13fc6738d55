"""Differential Transformer head block for the small chat model (arXiv 2410.05258)."""
import math

import torch
import torch.nn.functional as F
from torch import nn


def lambda_init(depth: int) -> float:
    return 0.8 - 0.6 * math.exp(-0.3 * depth)


class GroupRMS(nn.Module):
    def __init__(self, d, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.g = nn.Parameter(torch.ones(d))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.g


class DiffAttn(nn.Module):
    """Causal. Each head subtracts lambda times a second softmax map from the first.

    q, k have 2*H heads of width d, v has H heads of width 2*d.
    Map pair of head h: heads 2h and 2h+1. The weights may be negative.
    """

    def __init__(self, width, n_head, depth):
        super().__init__()
        self.H = n_head
        self.d = width // n_head // 2
        self.lam0 = lambda_init(depth)
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, width, bias=False)
        self.v = nn.Linear(width, width, bias=False)
        self.o = nn.Linear(width, width, bias=False)
        for name in ("lq1", "lk1", "lq2", "lk2"):
            setattr(self, name, nn.Parameter(torch.randn(self.d) * 0.1))
        self.sub = GroupRMS(2 * self.d)

    def lam(self):
        return torch.exp(self.lq1 @ self.lk1) - torch.exp(self.lq2 @ self.lk2) + self.lam0

    def forward(self, x):
        B, T, W = x.shape
        q = self.q(x).view(B, T, 2 * self.H, self.d).transpose(1, 2)
        k = self.k(x).view(B, T, 2 * self.H, self.d).transpose(1, 2)
        v = self.v(x).view(B, T, self.H, 2 * self.d).transpose(1, 2)
        s = q @ k.transpose(-1, -2) * self.d ** -0.5
        later = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
        p = F.softmax(s.masked_fill(later, float("-inf")), dim=-1, dtype=torch.float32)
        p = p.view(B, self.H, 2, T, T)
        p = p[:, :, 0] - self.lam() * p[:, :, 1]
        y = self.sub(p.to(v.dtype) @ v) * (1 - self.lam0)
        return self.o(y.transpose(1, 2).reshape(B, T, W))


class Block(nn.Module):
    def __init__(self, width, n_head, depth):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = DiffAttn(width, n_head, depth)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.down(F.silu(self.up(self.n2(x))))

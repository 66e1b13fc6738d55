"""Grasp proposal transformer (point cloud -> 6-DoF), lab fork with one module per head."""
import math

import torch
from torch import nn


class OneHead(nn.Module):
    def __init__(self, d_in, d_head):
        super().__init__()
        self.q = nn.Linear(d_in, d_head, bias=False)
        self.k = nn.Linear(d_in, d_head, bias=False)
        self.v = nn.Linear(d_in, d_head, bias=False)

    def forward(self, x, tau, valid):
        s = self.q(x) @ self.k(x).transpose(1, 2) / tau
        s = s.masked_fill(~valid[:, None, :], -1e9)
        return torch.softmax(s, dim=-1) @ self.v(x)


class PointSetAttention(nn.Module):
    """Scaled dot-product attention with n_heads heads over a point set.

    valid: bool [B, N], True for points inside of the workspace.
    """

    def __init__(self, width, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.d_head = width // n_heads
        self.heads = [OneHead(width, self.d_head) for _ in range(n_heads)]
        self.tau = math.sqrt(n_heads)
        self.mix = nn.Linear(width, width)

    def forward(self, x, valid):
        return self.mix(torch.cat([h(x, self.tau, valid) for h in self.heads], dim=-1))


class PointEncoder(nn.Module):
    def __init__(self, width=32, n_heads=2, depth=2):
        super().__init__()
        self.lift = nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, width))
        self.att = nn.ModuleList([PointSetAttention(width, n_heads) for _ in range(depth)])
        self.ln = nn.ModuleList([nn.LayerNorm(width) for _ in range(depth)])

    def forward(self, pts, valid):
        x = self.lift(pts)
        for a, n in zip(self.att, self.ln):
            x = n(x + a(x, valid))
        return x


class GraspHead(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.enc = PointEncoder(width)
        self.quat = nn.Linear(width, 4)
        self.depth = nn.Linear(width, 1)
        self.score = nn.Linear(width, 1)

    def forward(self, pts, valid):
        f = self.enc(pts, valid)
        q = nn.functional.normalize(self.quat(f), dim=-1)
        s = self.score(f).squeeze(-1).masked_fill(~valid, float("-inf"))
        return q, self.depth(f).squeeze(-1), s

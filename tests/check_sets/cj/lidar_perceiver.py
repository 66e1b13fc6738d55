"""Perceiver trunk for lidar sweeps: a handful of latents reads a variable number of points."""
import torch
from torch import nn
from torch.nn import functional as F


class NormedAttention(nn.Module):
    """Multi-head attention with l2-normalised queries and keys.

    Cosine similarities are multiplied by a learned temperature per head
    (initial value 10, as in Swin v2) instead of 1/sqrt(d).

    ignore: (B, N) bool, True for points to be ignored (fill-in rows of the
    loader). A sweep has at least one point.
    """

    def __init__(self, dim, ctx_dim, heads):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(dim, dim, bias=False)
        self.kv = nn.Linear(ctx_dim, 2 * dim, bias=False)
        self.log_temp = nn.Parameter(torch.full((heads, 1, 1), 10.0).log())
        self.out = nn.Linear(dim, dim)

    def forward(self, x, ctx, ignore=None):
        def split(t):
            return t.view(t.size(0), t.size(1), self.heads, -1).transpose(1, 2)

        k, v = self.kv(ctx).chunk(2, -1)
        q = F.normalize(split(self.q(x)), dim=-1)
        k = F.normalize(split(k), dim=-1)
        sim = q @ k.transpose(-1, -2) * self.log_temp.exp()
        if ignore is not None:
            sim = sim.masked_fill(ignore[:, None, None, :], -torch.inf)
        y = sim.softmax(-1) @ split(v)
        return self.out(y.transpose(1, 2).flatten(2))


class LidarPerceiver(nn.Module):
    def __init__(self, point_dim=4, dim=32, heads=4, n_latents=6, depth=2):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(n_latents, dim) * 0.3)
        self.lift = nn.Linear(point_dim, dim)
        self.read = NormedAttention(dim, dim, heads)
        self.think = nn.ModuleList([NormedAttention(dim, dim, heads) for _ in range(depth)])
        self.norm_pts = nn.LayerNorm(dim)
        self.norm_lat = nn.ModuleList([nn.LayerNorm(dim) for _ in range(depth + 1)])

    def forward(self, points, ignore=None):
        """points (B, N, point_dim) -> latents (B, n_latents, dim)"""
        ctx = self.norm_pts(self.lift(points))
        z = self.latents.expand(points.size(0), -1, -1)
        z = z + self.read(self.norm_lat[0](z), ctx, ignore)
        for att, norm in zip(self.think, self.norm_lat[1:]):
            n = norm(z)
            z = z + att(n, n)
        return z

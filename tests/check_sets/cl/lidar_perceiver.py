"""Perceiver encoder for lidar sweeps: a fixed set of latents reads a cloud of points."""
import torch
from torch import nn, einsum


class CrossAttend(nn.Module):
    def __init__(self, dim_q, dim_kv, heads=2, dim_head=8):
        super().__init__()
        inner = heads * dim_head
        self.h = heads
        self.scale = dim_head ** -0.5
        self.nq, self.nkv = nn.LayerNorm(dim_q), nn.LayerNorm(dim_kv)
        self.to_q = nn.Linear(dim_q, inner, bias=False)
        self.to_k = nn.Linear(dim_kv, inner, bias=False)
        self.to_v = nn.Linear(dim_kv, inner, bias=False)
        self.to_out = nn.Linear(inner, dim_q)

    def forward(self, x, ctx, keep=None):
        """keep: bool (B, n_ctx), True where ctx is a real point."""
        ctx = self.nkv(ctx)
        q, k, v = self.to_q(self.nq(x)), self.to_k(ctx), self.to_v(ctx)
        q, k, v = (t.unflatten(-1, (self.h, -1)) for t in (q, k, v))
        sim = einsum("b i h d, b j h d -> b h i j", q, k) * self.scale
        if keep is not None:
            sim = sim.masked_fill(~keep[:, None, None, :], -torch.finfo(sim.dtype).max)
        attn = sim.softmax(dim=-1)
        out = einsum("b h i j, b j h d -> b i h d", attn, v)
        return self.to_out(out.flatten(2))


class FF(nn.Sequential):
    def __init__(self, d):
        super().__init__(nn.LayerNorm(d), nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))


class LidarPerceiver(nn.Module):
    """points (B, N, 4) = x, y, z, intensity; n_points (B,) real points, the rest is zero padding.

    Returns latents (B, n_latents, dim). Every sweep has at least one point.
    """

    def __init__(self, dim=16, n_latents=6, rounds=2):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(n_latents, dim) * 0.2)
        self.embed = nn.Linear(4, 12)
        self.read = nn.ModuleList(CrossAttend(dim, 12) for _ in range(rounds))
        self.think = nn.ModuleList(CrossAttend(dim, dim) for _ in range(rounds))
        self.ff = nn.ModuleList(FF(dim) for _ in range(rounds))

    def forward(self, points, n_points):
        keep = torch.arange(points.shape[1], device=points.device) < n_points.unsqueeze(1)
        ctx = self.embed(points)
        z = self.latents.expand(points.shape[0], -1, -1)
        for read, think, ff in zip(self.read, self.think, self.ff):
            z = z + read(z, ctx, keep)
            z = z + think(z, z)
            z = z + ff(z)
        return z

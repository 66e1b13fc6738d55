"""Pooling of particle sets for jet tagging (Set Transformer's PMA)."""
import math

import torch
import torch.nn as nn


class JetPool(nn.Module):
    """``n_seeds`` learned queries summarise a jet.

    particles: (B, N, F) zero padded
    n_particles: (B,) how many of the N are real. Events where the trigger left
        no particle at all do occur (n = 0): their summary comes from zeros
        in place of the attention result.

    Returns (B, n_seeds, D).
    """

    def __init__(self, n_features: int = 5, dim: int = 24, n_heads: int = 3, n_seeds: int = 2):
        super().__init__()
        self.n_heads = n_heads
        self.d_head = dim // n_heads
        self.embed = nn.Sequential(nn.Linear(n_features, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.seeds = nn.Parameter(torch.randn(n_seeds, dim) * 0.5)
        self.to_q = nn.Linear(dim, dim)
        self.to_k = nn.Linear(dim, dim)
        self.to_v = nn.Linear(dim, dim)
        self.proj = nn.Linear(dim, dim)
        self.ff = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim), nn.ReLU())

    def forward(self, particles, n_particles):
        B, N, _ = particles.shape
        H, d = self.n_heads, self.d_head
        x = self.embed(particles)
        q = self.to_q(self.seeds).view(-1, H, d)      # S H d, same for each jet
        k = self.to_k(x).view(B, N, H, d)
        v = self.to_v(x).view(B, N, H, d)

        real = torch.arange(N, device=x.device)[None] < n_particles[:, None]   # B N
        s = torch.einsum("shd,bnhd->bhsn", q, k) / math.sqrt(d)
        s = s.masked_fill(~real[:, None, None], float("-inf"))
        # safe softmax: an empty jet has only -inf
        top = s.amax(-1, keepdim=True)
        top = torch.where(torch.isfinite(top), top, torch.zeros_like(top))
        e = torch.exp(s - top)
        w = e / e.sum(-1, keepdim=True).clamp(min=1e-12)

        pooled = torch.einsum("bhsn,bnhd->bshd", w, v).reshape(B, -1, H * d)
        y = self.seeds[None] + self.proj(pooled)
        return y + self.ff(y)

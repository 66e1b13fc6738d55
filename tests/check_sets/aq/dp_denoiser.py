"""Noise predictor of the diffusion policy: transformer over the action horizon, FiLM by observation and step."""
import math
import torch
import torch.nn as nn


class StepEmbedding(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, t):
        half = self.dim // 2
        f = torch.exp(torch.arange(half, device=t.device) * -(math.log(10000) / (half - 1)))
        a = t[:, None].float() * f[None]
        return torch.cat([a.sin(), a.cos()], dim=-1)


class HorizonBlock(nn.Module):
    """x: (batch, horizon, dim). Every action of the horizon sees every other action of its own sample."""

    def __init__(self, dim, heads, cond_dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, heads, dropout=0.0)
        self.film = nn.Linear(cond_dim, 2 * dim)
        self.ff_norm = nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.Mish(), nn.Linear(4 * dim, dim))

    def forward(self, x, cond):
        g, b = self.film(cond)[:, None].chunk(2, dim=-1)
        h = self.norm(x) * (1 + g) + b
        h, _ = self.attn(h, h, h, need_weights=False)
        x = x + h
        return x + self.ff(self.ff_norm(x))


class NoisePredictor(nn.Module):
    def __init__(self, action_dim, obs_dim, horizon=16, dim=64, heads=4, depth=2):
        super().__init__()
        self.inp = nn.Linear(action_dim, dim)
        self.pos = nn.Parameter(torch.zeros(1, horizon, dim))
        nn.init.normal_(self.pos, std=0.02)
        self.step = nn.Sequential(StepEmbedding(dim), nn.Linear(dim, dim), nn.Mish())
        self.blocks = nn.ModuleList(HorizonBlock(dim, heads, dim + obs_dim) for _ in range(depth))
        self.out = nn.Linear(dim, action_dim)

    def forward(self, noisy, t, obs):
        """noisy (B, horizon, action_dim), t (B,), obs (B, obs_dim)"""
        x = self.inp(noisy) + self.pos[:, : noisy.shape[1]]
        cond = torch.cat([self.step(t), obs], dim=-1)
        for blk in self.blocks:
            x = blk(x, cond)
        return self.out(x)


def cosine_alphas(steps, s=0.008):
    t = torch.linspace(0, 1, steps + 1)
    f = torch.cos((t + s) / (1 + s) * math.pi / 2) ** 2
    return (f[1:] / f[:-1]).clamp(min=1e-3)

"""Transformer denoiser of a diffusion policy (1-D action sequence).

Condition tokens: token 0 embeds the diffusion step, tokens 1..To the last To
observations.  Action t sees actions 0..t and, of the condition, token 0 and the
observations 0..t (observation s sits at token s + 1); later actions therefore
see all of them.  Masks are additive float buffers, 0 or -inf.
"""
import math

import torch
from torch import nn


def sinusoid(t: torch.Tensor, dim: int) -> torch.Tensor:
    half = dim // 2
    freq = torch.exp(-math.log(1e4) * torch.arange(half, device=t.device) / (half - 1))
    arg = t.float()[:, None] * freq[None]
    return torch.cat([arg.sin(), arg.cos()], dim=-1)


class MaskedAttention(nn.Module):
    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.o = nn.Linear(dim, dim)

    def forward(self, x: torch.Tensor, ctx: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        def heads(t):
            return t.unflatten(2, (self.heads, -1)).transpose(1, 2)

        q, k, v = heads(self.q(x)), heads(self.k(ctx)), heads(self.v(ctx))
        sim = torch.matmul(q, k.mT) / math.sqrt(q.size(-1)) + bias
        y = torch.matmul(sim.softmax(-1), v)
        return self.o(y.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.ln = nn.ModuleList(nn.LayerNorm(dim) for _ in range(3))
        self.self_attn = MaskedAttention(dim, heads)
        self.cross_attn = MaskedAttention(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.Mish(), nn.Linear(4 * dim, dim))

    def forward(self, x, cond, causal, memory):
        h = self.ln[0](x)
        x = x + self.self_attn(h, h, causal)
        x = x + self.cross_attn(self.ln[1](x), cond, memory)
        return x + self.mlp(self.ln[2](x))


class Denoiser(nn.Module):
    def __init__(self, action_dim=6, obs_dim=10, horizon=8, n_obs=3, dim=32, heads=4, depth=2):
        super().__init__()
        self.dim = dim
        self.embed_action = nn.Linear(action_dim, dim)
        self.embed_obs = nn.Linear(obs_dim, dim)
        self.pos_action = nn.Parameter(0.1 * torch.randn(horizon, dim))
        self.pos_cond = nn.Parameter(0.1 * torch.randn(n_obs + 1, dim))
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(depth))
        self.out = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, action_dim))

        t = torch.arange(horizon)[:, None]
        hide_future = torch.arange(horizon)[None] > t
        hide_memory = torch.arange(n_obs + 1)[None] - 1 > t
        self.register_buffer("causal", torch.zeros(horizon, horizon).masked_fill(hide_future, -math.inf))
        self.register_buffer("memory", torch.zeros(horizon, n_obs + 1).masked_fill(hide_memory, -math.inf))

    def forward(self, noisy, step, obs):
        """noisy [B, horizon, action_dim], step [B], obs [B, n_obs, obs_dim]"""
        cond = torch.cat([sinusoid(step, self.dim)[:, None], self.embed_obs(obs)], dim=1) + self.pos_cond
        x = self.embed_action(noisy) + self.pos_action
        for layer in self.layers:
            x = layer(x, cond, self.causal, self.memory)
        return self.out(x)

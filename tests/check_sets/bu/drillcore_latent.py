# Drill core logging: lithology read top-down, one token per 10 cm of core.
# The latent cache makes 2 km holes affordable on the logging hut's laptop.
from typing import NamedTuple, Optional, Tuple

import torch
from torch import nn


class CoreCfg(NamedTuple):
    dim: int = 32
    heads: int = 4
    content: int = 8      # per-head width without depth code
    rotary: int = 4       # per-head width with depth code (key part shared by the heads)
    value: int = 6
    latent: int = 12


Cache = Tuple[torch.Tensor, torch.Tensor]


def depth_table(start: int, n: int, width: int, base: float = 500.0):
    inv = base ** (-torch.arange(0, width, 2).float() / width)
    ang = torch.arange(start, start + n).float()[:, None] * inv
    ang = torch.cat([ang, ang], -1)
    return ang.cos(), ang.sin()


def turn(t, cos, sin):
    """Half-split rotation; t [..., n, width]."""
    a, b = t.chunk(2, -1)
    return t * cos.to(t) + torch.cat([-b, a], -1) * sin.to(t)


class LatentCoreAttention(nn.Module):
    """Downward-only (causal) latent attention.

    The cache is (latent [B, n, latent], rotated shared key [B, n, rotary]).
    """

    def __init__(self, cfg: CoreCfg = CoreCfg()):
        super().__init__()
        self.cfg = c = cfg
        self.to_q = nn.Linear(c.dim, c.heads * (c.content + c.rotary), bias=False)
        self.down = nn.Linear(c.dim, c.latent + c.rotary, bias=False)
        self.tidy = nn.RMSNorm(c.latent)
        self.up = nn.Linear(c.latent, c.heads * (c.content + c.value), bias=False)
        self.merge = nn.Linear(c.heads * c.value, c.dim, bias=False)

    def forward(self, x, cache: Optional[Cache] = None):
        c = self.cfg
        B, n, _ = x.shape
        start = 0 if cache is None else cache[0].size(1)
        cos, sin = depth_table(start, n, c.rotary)

        q = self.to_q(x).view(B, n, c.heads, -1).transpose(1, 2)
        q_c, q_r = q.split([c.content, c.rotary], -1)
        q_r = turn(q_r, cos, sin)

        lat, k_r = self.down(x).split([c.latent, c.rotary], -1)
        lat, k_r = self.tidy(lat), turn(k_r, cos, sin)
        if cache is not None:
            lat = torch.cat([cache[0], lat], 1)
            k_r = torch.cat([cache[1], k_r], 1)

        total = lat.size(1)
        kv = self.up(lat).view(B, total, c.heads, -1).transpose(1, 2)
        k_c, v = kv.split([c.content, c.value], -1)

        s = q_c @ k_c.transpose(-1, -2) + q_r @ k_r.unsqueeze(1).transpose(-1, -2)
        s = s * (c.content + c.rotary) ** -0.5
        deeper = torch.ones(n, total, dtype=torch.bool, device=x.device).triu(total - n + 1)
        s = s.masked_fill(deeper, float("-inf"))
        y = torch.softmax(s, -1) @ v
        return self.merge(y.transpose(1, 2).reshape(B, n, -1)), (lat, k_r)


class CoreLogger(nn.Module):
    def __init__(self, rocks=11, cfg=CoreCfg()):
        super().__init__()
        self.look = nn.Embedding(rocks, cfg.dim)
        self.att = LatentCoreAttention(cfg)
        self.head = nn.Linear(cfg.dim, rocks)

    def forward(self, rock, cache=None):
        h = self.look(rock)
        y, cache = self.att(h, cache)
        return self.head(h + y), cache

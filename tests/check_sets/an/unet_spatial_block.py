"""Building blocks of the latent UNet (only what the sampler service needs)."""
from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class BlockCfg:
    channels: int
    ctx_dim: int | None = None
    head_dim: int = 32
    groups: int = 8
    ff_mult: int = 4


class GEGLU(nn.Module):
    def __init__(self, dim, mult):
        super().__init__()
        self.inp = nn.Linear(dim, dim * mult * 2)
        self.out = nn.Linear(dim * mult, dim)

    def forward(self, x):
        a, g = self.inp(x).chunk(2, dim=-1)
        return self.out(a * nn.functional.gelu(g))


class CondAttn(nn.Module):
    """Self attention when ``ctx`` is None, otherwise cross attention on text tokens.

    x    : (N, HW, C)
    ctx  : (N, T, D) or None
    keep : (N, T) bool, True = real token, False = padding of the tokenizer
    """

    def __init__(self, cfg: BlockCfg, cross: bool):
        super().__init__()
        assert cfg.channels % cfg.head_dim == 0
        self.nh = cfg.channels // cfg.head_dim
        self.scale = cfg.head_dim ** -0.5
        kv = cfg.ctx_dim if cross else cfg.channels
        self.to_q = nn.Linear(cfg.channels, cfg.channels, bias=False)
        self.to_k = nn.Linear(kv, cfg.channels, bias=False)
        self.to_v = nn.Linear(kv, cfg.channels, bias=False)
        self.to_out = nn.Linear(cfg.channels, cfg.channels)

    def _heads(self, t):
        n, l, c = t.shape
        return t.view(n, l, self.nh, c // self.nh).transpose(1, 2)

    def forward(self, x, ctx=None, keep=None):
        src = x if ctx is None else ctx
        q, k, v = map(self._heads, (self.to_q(x), self.to_k(src), self.to_v(src)))
        sim = torch.matmul(q * self.scale, k.mT)
        if keep is not None:
            sim = sim.masked_fill(~keep[:, None, None, :], torch.finfo(sim.dtype).min)
        w = sim.softmax(-1)
        o = torch.matmul(w, v).transpose(1, 2).flatten(2)
        return self.to_out(o)


class SpatialTransformer(nn.Module):
    def __init__(self, cfg: BlockCfg):
        super().__init__()
        self.cfg = cfg
        self.norm = nn.GroupNorm(cfg.groups, cfg.channels, eps=1e-6)
        self.pin = nn.Conv2d(cfg.channels, cfg.channels, 1)
        self.n1 = nn.LayerNorm(cfg.channels)
        self.n2 = nn.LayerNorm(cfg.channels)
        self.n3 = nn.LayerNorm(cfg.channels)
        self.a1 = CondAttn(cfg, cross=False)
        self.a2 = CondAttn(cfg, cross=cfg.ctx_dim is not None)
        self.ff = GEGLU(cfg.channels, cfg.ff_mult)
        self.pout = nn.Conv2d(cfg.channels, cfg.channels, 1)

    def forward(self, img, ctx=None, keep=None):
        n, c, h, w = img.shape
        x = self.pin(self.norm(img)).flatten(2).transpose(1, 2)
        x = x + self.a1(self.n1(x))
        x = x + self.a2(self.n2(x), ctx, keep)
        x = x + self.ff(self.n3(x))
        x = x.transpose(1, 2).reshape(n, c, h, w)
        return img + self.pout(x)

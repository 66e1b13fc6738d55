# Copyright (c) the tinyserve authors. Apache-2.0.
"""Multi-head latent attention with a compressed cache.

What is cached per token:  c_kv  (rank ``r``)  and one rotary key shared by all
heads (``d_rope``).  Decoding never rebuilds per-head keys: ``W_uk`` is absorbed
into the query and ``W_uv`` is applied to the mixed latents.
Causal; new tokens are appended behind the cached ones.
"""
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass
class MLAConfig:
    dim: int = 64
    heads: int = 4
    d_nope: int = 16
    d_rope: int = 8
    d_v: int = 12
    r: int = 20
    theta: float = 10_000.0


@dataclass
class LatentCache:
    ckv: Tensor  # [B, T, r]
    kr: Tensor  # [B, T, d_rope], already rotated

    @property
    def length(self) -> int:
        return self.ckv.shape[1]


def rotate_pairs(x: Tensor, pos: Tensor, theta: float) -> Tensor:
    """Neighbouring channels (2i, 2i+1) form a complex number. x: [..., T, d]."""
    d = x.shape[-1]
    inv = theta ** (-torch.arange(0, d, 2, dtype=torch.float32, device=x.device) / d)
    ang = pos.float()[:, None] * inv
    z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], d // 2, 2).contiguous())
    z = z * torch.polar(torch.ones_like(ang), ang)
    return torch.view_as_real(z).flatten(-2).to(x.dtype)


class LatentAttention(nn.Module):
    def __init__(self, cfg: MLAConfig):
        super().__init__()
        self.cfg = cfg
        h = cfg.heads
        self.wq = nn.Linear(cfg.dim, h * (cfg.d_nope + cfg.d_rope), bias=False)
        self.wdkv = nn.Linear(cfg.dim, cfg.r + cfg.d_rope, bias=False)
        self.norm = nn.RMSNorm(cfg.r)
        self.wuk = nn.Parameter(torch.randn(h, cfg.d_nope, cfg.r) * cfg.r**-0.5)
        self.wuv = nn.Parameter(torch.randn(h, cfg.d_v, cfg.r) * cfg.r**-0.5)
        self.wo = nn.Linear(h * cfg.d_v, cfg.dim, bias=False)
        # the logits are a product over d_nope + d_rope channels, not over r
        self.scale = (cfg.d_nope + cfg.d_rope) ** -0.5

    def forward(self, x: Tensor, cache: LatentCache | None = None) -> tuple[Tensor, LatentCache]:
        c = self.cfg
        b, t, _ = x.shape
        past = cache.length if cache is not None else 0
        pos = torch.arange(past, past + t, device=x.device)

        q = self.wq(x).view(b, t, c.heads, -1).transpose(1, 2)
        q_nope, q_rope = q.split([c.d_nope, c.d_rope], dim=-1)
        q_rope = rotate_pairs(q_rope, pos, c.theta)

        ckv, kr = self.wdkv(x).split([c.r, c.d_rope], dim=-1)
        ckv, kr = self.norm(ckv), rotate_pairs(kr, pos, c.theta)
        if cache is not None:
            ckv = torch.cat([cache.ckv, ckv], dim=1)
            kr = torch.cat([cache.kr, kr], dim=1)
        new = LatentCache(ckv, kr)

        q_abs = torch.einsum("bhtn,hnr->bhtr", q_nope, self.wuk)
        s = torch.einsum("bhtr,bsr->bhts", q_abs, ckv)
        s = s + torch.einsum("bhtp,bsp->bhts", q_rope, kr)
        s = s.float() * self.scale
        kpos = torch.arange(past + t, device=x.device)
        s = s.masked_fill(kpos[None, :] > pos[:, None], float("-inf"))
        p = s.softmax(-1).to(x.dtype)
        mixed = torch.einsum("bhts,bsr->bhtr", p, ckv)
        out = torch.einsum("bhtr,hvr->bthv", mixed, self.wuv)
        return self.wo(out.flatten(2)), new

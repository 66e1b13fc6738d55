"""Latent-cache attention for the magistrates' court docket summariser.

A docket can be thousands of entries long and the clerk's laptop has 8 GB, so only one
low-rank latent plus one small rotary key per entry is cached (multi-head latent attention).
During decoding the up-projections are absorbed into the query and the output.
"""
from __future__ import annotations

from typing import NamedTuple, Optional

import torch
from torch import Tensor, nn


class Dims(NamedTuple):
    model: int = 40
    heads: int = 4
    nope: int = 8      # per-head content width
    rope: int = 4      # rotary width; the rotary key is shared by all heads
    value: int = 6     # per-head value width
    latent: int = 12


class DocketCache(NamedTuple):
    latent: Tensor     # [B, T, latent]
    key_rope: Tensor   # [B, T, rope], already rotated


class RMSNorm(nn.Module):
    def __init__(self, n: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.g = nn.Parameter(torch.ones(n))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.g


def rotate(x: Tensor, pos: Tensor, base: float = 10_000.0) -> Tensor:
    """Half-split rotary on the last axis; `pos` is [L] and x is [..., L, r]."""
    half = x.shape[-1] // 2
    inv = base ** (-torch.arange(half, device=x.device, dtype=torch.float64) / half)
    ang = pos.to(torch.float64)[:, None] * inv
    c, s = ang.cos().to(x.dtype), ang.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * c - b * s, b * c + a * s], dim=-1)


class LatentDocketAttention(nn.Module):
    """Causal. With a cache of T entries the new entries sit at positions T, T+1, ..."""

    def __init__(self, dims: Dims = Dims()) -> None:
        super().__init__()
        self.dims = d = dims
        self.wq = nn.Linear(d.model, d.heads * (d.nope + d.rope), bias=False)
        self.w_down = nn.Linear(d.model, d.latent + d.rope, bias=False)
        self.norm = RMSNorm(d.latent)
        self.w_uk = nn.Parameter(torch.randn(d.heads, d.nope, d.latent) * d.latent ** -0.5)
        self.w_uv = nn.Parameter(torch.randn(d.heads, d.value, d.latent) * d.latent ** -0.5)
        self.wo = nn.Linear(d.heads * d.value, d.model, bias=False)

    def forward(self, x: Tensor, cache: Optional[DocketCache] = None) -> tuple[Tensor, DocketCache]:
        d, (bsz, new, _) = self.dims, x.shape
        past = 0 if cache is None else cache.latent.shape[1]
        pos = torch.arange(past, past + new, device=x.device)

        q = self.wq(x).view(bsz, new, d.heads, d.nope + d.rope).transpose(1, 2)
        q_nope, q_rope = q.split([d.nope, d.rope], dim=-1)
        q_rope = rotate(q_rope, pos)

        latent, k_rope = self.w_down(x).split([d.latent, d.rope], dim=-1)
        latent, k_rope = self.norm(latent), rotate(k_rope, pos)
        if cache is not None:
            latent = torch.cat([cache.latent, latent], dim=1)
            k_rope = torch.cat([cache.key_rope, k_rope], dim=1)
        cache = DocketCache(latent, k_rope)

        q_lat = torch.einsum("bhqn,hnc->bhqc", q_nope, self.w_uk)      # absorbed key up-projection
        logits = torch.einsum("bhqc,btc->bhqt", q_lat, latent)
        logits = logits + torch.einsum("bhqr,btr->bhqt", q_rope, k_rope)
        logits = logits.float() * (d.nope + d.rope) ** -0.5
        future = torch.arange(past + new, device=x.device)[None, :] > pos[:, None]
        probs = logits.masked_fill(future, float("-inf")).softmax(-1).to(x.dtype)
        ctx = torch.einsum("bhqt,btc->bhqc", probs, latent)
        out = torch.einsum("bhqc,hvc->bqhv", ctx, self.w_uv)           # absorbed value up-projection
        return self.wo(out.flatten(2)), cache


class DocketLayer(nn.Module):
    def __init__(self, dims: Dims = Dims()) -> None:
        super().__init__()
        self.pre, self.attn = RMSNorm(dims.model), LatentDocketAttention(dims)
        self.post = RMSNorm(dims.model)
        self.ff = nn.Sequential(nn.Linear(dims.model, 4 * dims.model), nn.SiLU(), nn.Linear(4 * dims.model, dims.model))

    def forward(self, x: Tensor, cache: Optional[DocketCache] = None):
        y, cache = self.attn(self.pre(x), cache)
        x = x + y
        return x + self.ff(self.post(x)), cache

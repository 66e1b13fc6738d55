from __future__ import annotations

import math
from typing import NamedTuple, Optional

import torch
import torch.nn as nn


class LatentCache(NamedTuple):
    """What is kept per token: a latent of size `rank` and one rotated key shared by all heads."""

    c: torch.Tensor        # [B, T, rank]
    k_rot: torch.Tensor    # [B, T, d_rot]

    @property
    def length(self) -> int:
        return self.c.shape[1]


def rotary_tables(pos: torch.Tensor, dim: int, base: float = 10000.0):
    inv = base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    ang = pos.to(torch.float64)[:, None] * inv[None, :]
    ang = torch.cat([ang, ang], dim=-1)
    return ang.cos(), ang.sin()


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, dim=-1)
    return x * cos.to(x.dtype) + torch.cat([-b, a], dim=-1) * sin.to(x.dtype)


class LatentAttention(nn.Module):
    """Multi-head latent attention (DeepSeek-V2), inference form.

    The up-projections are absorbed: instead of expanding the latent to keys and
    values, the query is taken down into the latent space, and the read latent is
    expanded once per query. Causal; new tokens come after those of the cache.
    """

    def __init__(self, width: int, heads: int, d_nope: int, d_rot: int, d_v: int, rank: int):
        super().__init__()
        self.heads, self.d_nope, self.d_rot, self.d_v, self.rank = heads, d_nope, d_rot, d_v, rank
        self.w_q = nn.Linear(width, heads * (d_nope + d_rot), bias=False)
        self.w_dkv = nn.Linear(width, rank + d_rot, bias=False)
        self.c_norm = nn.RMSNorm(rank, eps=1e-6)
        self.w_uk = nn.Parameter(torch.randn(heads, d_nope, rank) / math.sqrt(rank))
        self.w_uv = nn.Parameter(torch.randn(heads, d_v, rank) / math.sqrt(rank))
        self.w_o = nn.Linear(heads * d_v, width, bias=False)
        # width of the concatenated (nope | rot) head, not of the latent
        self.scale = 1.0 / math.sqrt(d_nope + d_rot)

    def forward(self, x: torch.Tensor, cache: Optional[LatentCache] = None):
        B, L, _ = x.shape
        past = cache.length if cache is not None else 0
        cos, sin = rotary_tables(torch.arange(past, past + L), self.d_rot)

        q = self.w_q(x).view(B, L, self.heads, self.d_nope + self.d_rot)
        q_nope, q_rot = q.split([self.d_nope, self.d_rot], dim=-1)
        q_rot = rotate(q_rot, cos[:, None], sin[:, None])

        c, k_rot = self.w_dkv(x).split([self.rank, self.d_rot], dim=-1)
        c, k_rot = self.c_norm(c), rotate(k_rot, cos, sin)
        if cache is not None:
            c = torch.cat([cache.c, c], dim=1)
            k_rot = torch.cat([cache.k_rot, k_rot], dim=1)

        q_lat = torch.einsum("blhd,hdr->bhlr", q_nope, self.w_uk)
        s = torch.einsum("bhlr,btr->bhlt", q_lat, c) + torch.einsum("blhd,btd->bhlt", q_rot, k_rot)
        s = s * self.scale
        T = c.shape[1]
        future = torch.arange(T)[None, :] > torch.arange(past, T)[:, None]
        p = s.masked_fill(future, float("-inf")).softmax(-1, dtype=torch.float32).to(x.dtype)
        read = torch.einsum("bhlt,btr->bhlr", p, c)
        y = torch.einsum("bhlr,hdr->blhd", read, self.w_uv).reshape(B, L, -1)
        return self.w_o(y), LatentCache(c, k_rot)

"""Multi-head latent attention, decode path with absorbed up-projections.

Only the compressed latent c_kv (rank r) and one shared rotary key per position are
cached.  ``W_uk`` goes into the query and ``W_uv`` is applied after the weighted sum, so
the per-head keys and values never exist in memory.
"""
import math
from dataclasses import dataclass
from typing import NamedTuple, Optional

import torch
from torch import nn


@dataclass
class MLAConfig:
    hidden: int = 64
    n_heads: int = 4
    nope_dim: int = 16
    rope_dim: int = 8
    v_dim: int = 12
    kv_rank: int = 24
    theta: float = 10000.0


class LatentCache(NamedTuple):
    c: torch.Tensor       # (B, T, r)
    k_pe: torch.Tensor    # (B, T, rope_dim)


def rotate(x, pos, theta):
    """Interleaved rotary on the last dim; pos is (T,) and x is (B, T, ..., d)."""
    d = x.shape[-1]
    f = theta ** (-torch.arange(0, d, 2, dtype=torch.float64, device=x.device) / d)
    ang = pos.to(torch.float64)[:, None] * f
    shape = [1, pos.shape[0]] + [1] * (x.dim() - 3) + [d // 2]
    cos, sin = ang.cos().to(x.dtype).view(shape), ang.sin().to(x.dtype).view(shape)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


class MLAttention(nn.Module):
    def __init__(self, cfg: MLAConfig):
        super().__init__()
        self.cfg = cfg
        H = cfg.n_heads
        self.wq = nn.Linear(cfg.hidden, H * (cfg.nope_dim + cfg.rope_dim), bias=False)
        self.w_dkv = nn.Linear(cfg.hidden, cfg.kv_rank + cfg.rope_dim, bias=False)
        self.kv_norm = nn.RMSNorm(cfg.kv_rank, eps=1e-6)
        self.w_uk = nn.Parameter(torch.randn(H, cfg.nope_dim, cfg.kv_rank) / math.sqrt(cfg.kv_rank))
        self.w_uv = nn.Parameter(torch.randn(H, cfg.v_dim, cfg.kv_rank) / math.sqrt(cfg.kv_rank))
        self.wo = nn.Linear(H * cfg.v_dim, cfg.hidden, bias=False)
        self.softmax_scale = (cfg.nope_dim + cfg.rope_dim) ** -0.5

    def forward(self, x, cache: Optional[LatentCache] = None):
        """Causal. Returns (y, new_cache)."""
        cfg = self.cfg
        B, S, _ = x.shape
        past = 0 if cache is None else cache.c.size(1)
        pos = torch.arange(past, past + S, device=x.device)

        q = self.wq(x).view(B, S, cfg.n_heads, -1)
        q_nope, q_pe = q.split([cfg.nope_dim, cfg.rope_dim], dim=-1)
        q_pe = rotate(q_pe, pos, cfg.theta)

        c, k_pe = self.w_dkv(x).split([cfg.kv_rank, cfg.rope_dim], dim=-1)
        c, k_pe = self.kv_norm(c), rotate(k_pe, pos, cfg.theta)
        if cache is not None:
            c = torch.cat([cache.c, c], dim=1)
            k_pe = torch.cat([cache.k_pe, k_pe], dim=1)

        q_lat = torch.einsum("bshd,hdr->bshr", q_nope, self.w_uk)
        s = torch.einsum("bshr,btr->bhst", q_lat, c) + torch.einsum("bshp,btp->bhst", q_pe, k_pe)
        s = s.float() * self.softmax_scale
        T = c.size(1)
        visible = torch.arange(T, device=x.device)[None, :] <= pos[:, None]
        s = s.masked_fill(~visible, float("-inf"))
        p = s.softmax(dim=-1).type_as(x)
        o = torch.einsum("bhst,btr->bshr", p, c)
        o = torch.einsum("bshr,hvr->bshv", o, self.w_uv)
        return self.wo(o.reshape(B, S, -1)), LatentCache(c, k_pe)

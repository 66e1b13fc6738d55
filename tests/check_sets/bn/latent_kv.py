"""Multi-head latent attention with a compressed cache, absorbed form.

Only the latent `c` (kv_rank numbers) and one shared rotary key per token are
cached.  W_uk is folded into the query and W_uv into the output, so keys and
values are never expanded.  Rotary pairs are interleaved (2i, 2i+1).
"""
from dataclasses import dataclass
from typing import Optional, Tuple

import torch
import torch.nn as nn


@dataclass
class LatentCfg:
    dim: int = 96
    n_heads: int = 4
    q_rank: int = 48
    kv_rank: int = 32
    nope: int = 16
    rope: int = 8
    v_dim: int = 12
    theta: float = 10_000.0
    max_len: int = 256


class RMSNorm(nn.Module):
    def __init__(self, n: int, eps: float = 1e-6):
        super().__init__()
        self.g = nn.Parameter(torch.ones(n))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.g


def freqs_cis(cfg: LatentCfg) -> torch.Tensor:
    inv = cfg.theta ** (-torch.arange(0, cfg.rope, 2, dtype=torch.float64) / cfg.rope)
    ang = torch.outer(torch.arange(cfg.max_len, dtype=torch.float64), inv)
    return torch.stack([ang.cos(), ang.sin()], -1)  # [max_len, rope/2, 2]


def rotate(x: torch.Tensor, cs: torch.Tensor) -> torch.Tensor:
    """x [B, T, H, rope], cs [T, rope/2, 2]"""
    a, b = x[..., 0::2], x[..., 1::2]
    cos, sin = cs[None, :, None, :, 0].to(x.dtype), cs[None, :, None, :, 1].to(x.dtype)
    return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)


class LatentAttention(nn.Module):
    """Causal.  forward(x, cache) -> (y, cache); cache is None or (latents, rotary keys)."""

    def __init__(self, cfg: LatentCfg):
        super().__init__()
        self.cfg = cfg
        h, qk = cfg.n_heads, cfg.nope + cfg.rope
        self.wq_a = nn.Linear(cfg.dim, cfg.q_rank, bias=False)
        self.q_norm = RMSNorm(cfg.q_rank)
        self.wq_b = nn.Linear(cfg.q_rank, h * qk, bias=False)
        self.wkv_a = nn.Linear(cfg.dim, cfg.kv_rank + cfg.rope, bias=False)
        self.kv_norm = RMSNorm(cfg.kv_rank)
        self.wkv_b = nn.Linear(cfg.kv_rank, h * (cfg.nope + cfg.v_dim), bias=False)
        self.wo = nn.Linear(h * cfg.v_dim, cfg.dim, bias=False)
        self.scale = qk ** -0.5
        self.register_buffer("cs", freqs_cis(cfg), persistent=False)

    def forward(
        self,
        x: torch.Tensor,
        cache: Optional[Tuple[torch.Tensor, torch.Tensor]] = None,
    ):
        c = self.cfg
        B, T, _ = x.shape
        past = 0 if cache is None else cache[0].shape[1]
        cs = self.cs[past : past + T]

        q = self.wq_b(self.q_norm(self.wq_a(x))).view(B, T, c.n_heads, -1)
        q_nope, q_pe = q.split([c.nope, c.rope], dim=-1)
        q_pe = rotate(q_pe, cs)

        lat, k_pe = self.wkv_a(x).split([c.kv_rank, c.rope], dim=-1)
        lat = self.kv_norm(lat)
        k_pe = rotate(k_pe.unsqueeze(2), cs).squeeze(2)
        if cache is not None:
            lat = torch.cat([cache[0], lat], dim=1)
            k_pe = torch.cat([cache[1], k_pe], dim=1)

        w = self.wkv_b.weight.view(c.n_heads, c.nope + c.v_dim, c.kv_rank)
        w_uk, w_uv = w[:, : c.nope], w[:, c.nope :]
        q_lat = torch.einsum("bthd,hdc->bthc", q_nope, w_uk)

        s = torch.einsum("bthc,bsc->bhts", q_lat, lat)
        s = s + torch.einsum("bthr,bsr->bhts", q_pe, k_pe)
        s = s * self.scale
        S = lat.shape[1]
        later = torch.ones(T, S, dtype=torch.bool, device=x.device).triu(1 + S - T)
        s = s.masked_fill(later, float("-inf"))
        p = s.softmax(dim=-1, dtype=torch.float32 if s.dtype != torch.float64 else None).to(x.dtype)

        o = torch.einsum("bhts,bsc->bthc", p, lat)
        o = torch.einsum("bthc,hvc->bthv", o, w_uv)
        return self.wo(o.flatten(2)), (lat, k_pe)


if __name__ == "__main__":
    torch.manual_seed(0)
    m = LatentAttention(LatentCfg())
    t = torch.randn(2, 9, 96)
    full, _ = m(t)
    a, st = m(t[:, :6])
    b, _ = m(t[:, 6:], st)
    print((full - torch.cat([a, b], 1)).abs().max())

"""Multi-head latent attention (DeepSeek-V2) with the absorbed form for decoding.

Only the compressed latent c_kv (rank r) and the shared rotary key are cached.  The up
projections of keys and values are folded into the query and the output, so that keys and
values of full width never exist.
"""
from dataclasses import dataclass, field
from typing import Optional

import torch
import torch.nn as nn


@dataclass
class MLAArgs:
    dim: int = 64
    n_heads: int = 4
    kv_lora_rank: int = 24
    qk_nope_head_dim: int = 16
    qk_rope_head_dim: int = 8
    v_head_dim: int = 12
    rope_theta: float = 10000.0

    @property
    def qk_head_dim(self) -> int:
        return self.qk_nope_head_dim + self.qk_rope_head_dim


@dataclass
class LatentCache:
    c_kv: Optional[torch.Tensor] = None    # (B, T, r)
    k_pe: Optional[torch.Tensor] = None    # (B, T, rope)
    length: int = field(default=0)

    def append(self, c_kv, k_pe):
        if self.c_kv is not None:
            c_kv = torch.cat([self.c_kv, c_kv], dim=1)
            k_pe = torch.cat([self.k_pe, k_pe], dim=1)
        self.c_kv, self.k_pe, self.length = c_kv, k_pe, c_kv.size(1)
        return c_kv, k_pe


def precompute_freqs_cis(positions: torch.Tensor, dim: int, theta: float) -> torch.Tensor:
    freqs = 1.0 / (theta ** (torch.arange(0, dim, 2, dtype=torch.float32) / dim))
    freqs = torch.outer(positions.float(), freqs)
    return torch.polar(torch.ones_like(freqs), freqs)


def apply_rotary_emb(x: torch.Tensor, freqs_cis: torch.Tensor) -> torch.Tensor:
    """x (B, L, H, D), neighbouring pairs as complex numbers"""
    dtype = x.dtype
    x = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    y = torch.view_as_real(x * freqs_cis.view(1, x.size(1), 1, x.size(-1))).flatten(3)
    return y.to(dtype)


class MLA(nn.Module):
    """Causal.  ``forward(x, cache)`` continues after the tokens of the cache."""

    def __init__(self, args: MLAArgs):
        super().__init__()
        self.args = args
        H = args.n_heads
        self.wq = nn.Linear(args.dim, H * args.qk_head_dim, bias=False)
        self.wkv_a = nn.Linear(args.dim, args.kv_lora_rank + args.qk_rope_head_dim, bias=False)
        self.kv_norm = nn.RMSNorm(args.kv_lora_rank, eps=1e-6)
        self.wkv_b = nn.Linear(args.kv_lora_rank, H * (args.qk_nope_head_dim + args.v_head_dim), bias=False)
        self.wo = nn.Linear(H * args.v_head_dim, args.dim, bias=False)
        self.softmax_scale = args.qk_head_dim ** -0.5

    def forward(self, x: torch.Tensor, cache: Optional[LatentCache] = None) -> torch.Tensor:
        a = self.args
        B, L, _ = x.shape
        start = cache.length if cache is not None else 0
        freqs_cis = precompute_freqs_cis(torch.arange(start, start + L), a.qk_rope_head_dim, a.rope_theta)

        q = self.wq(x).view(B, L, a.n_heads, a.qk_head_dim)
        q_nope, q_pe = q.split([a.qk_nope_head_dim, a.qk_rope_head_dim], dim=-1)
        q_pe = apply_rotary_emb(q_pe, freqs_cis)
        c_kv, k_pe = self.wkv_a(x).split([a.kv_lora_rank, a.qk_rope_head_dim], dim=-1)
        c_kv = self.kv_norm(c_kv)
        k_pe = apply_rotary_emb(k_pe.unsqueeze(2), freqs_cis).squeeze(2)
        if cache is not None:
            c_kv, k_pe = cache.append(c_kv, k_pe)

        wkv_b = self.wkv_b.weight.view(a.n_heads, -1, a.kv_lora_rank)
        q_lat = torch.einsum("bshd,hdc->bshc", q_nope, wkv_b[:, :a.qk_nope_head_dim])
        scores = torch.einsum("bshc,btc->bsht", q_lat, c_kv) + torch.einsum("bshr,btr->bsht", q_pe, k_pe)
        scores = scores * self.softmax_scale

        T = c_kv.size(1)
        if L > 1:
            hidden = torch.full((L, T), float("-inf"), device=x.device).triu_(T - L + 1)
            scores = scores + hidden[None, :, None, :]
        scores = scores.softmax(dim=-1, dtype=torch.float32).type_as(x)

        o = torch.einsum("bsht,btc->bshc", scores, c_kv)
        o = torch.einsum("bshc,hdc->bshd", o, wkv_b[:, -a.v_head_dim:])
        return self.wo(o.flatten(2))


if __name__ == "__main__":
    torch.manual_seed(0)
    mla, cache = MLA(MLAArgs()), LatentCache()
    x = torch.randn(1, 6, 64)
    print(mla(x).shape, [tuple(mla(x[:, i:i + 2], cache).shape) for i in (0, 2, 4)])

"""Multi-head latent attention with absorbed up-projections (decode path of the 16B model).

What is cached per token is only the compressed latent c (kv_rank) and one rotary
key shared by all heads. `expand_forward` is the textbook form used in prefill,
`absorb_forward` multiplies W_uk into the query and W_uv into the output.
"""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class MLAArgs:
    dim: int = 64
    n_heads: int = 4
    kv_rank: int = 16
    nope_dim: int = 12
    rope_dim: int = 8
    v_dim: int = 10
    theta: float = 10000.0
    max_len: int = 256

    @property
    def qk_dim(self):
        return self.nope_dim + self.rope_dim


def precompute_cis(args: MLAArgs):
    inv = args.theta ** (-torch.arange(0, args.rope_dim, 2).float() / args.rope_dim)
    ang = torch.outer(torch.arange(args.max_len).float(), inv)
    return torch.polar(torch.ones_like(ang), ang)


def apply_rope(x, cis):
    """x [B, L, H, rope_dim], complex pairs are neighbours."""
    z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(z * cis[None, :, None, :]).flatten(-2).type_as(x)


class LatentCache:
    def __init__(self, args, batch, dtype=torch.float32):
        self.c = torch.zeros(batch, args.max_len, args.kv_rank, dtype=dtype)
        self.pe = torch.zeros(batch, args.max_len, args.rope_dim, dtype=dtype)
        self.used = 0

    def append(self, c, pe):
        end = self.used + c.size(1)
        self.c[:, self.used:end] = c
        self.pe[:, self.used:end] = pe
        self.used = end
        return self.c[:, :end], self.pe[:, :end]


class LatentAttention(nn.Module):
    def __init__(self, args: MLAArgs):
        super().__init__()
        self.a = args
        self.wq = nn.Linear(args.dim, args.n_heads * args.qk_dim, bias=False)
        self.wkv_a = nn.Linear(args.dim, args.kv_rank + args.rope_dim, bias=False)
        self.kv_norm = nn.LayerNorm(args.kv_rank)
        self.wkv_b = nn.Linear(args.kv_rank, args.n_heads * (args.nope_dim + args.v_dim), bias=False)
        self.wo = nn.Linear(args.n_heads * args.v_dim, args.dim, bias=False)
        self.scale = args.qk_dim ** -0.5
        self.register_buffer("cis", precompute_cis(args), persistent=False)

    def _front(self, x, cache):
        a = self.a
        B, L, _ = x.shape
        cis = self.cis[cache.used:cache.used + L]
        q = self.wq(x).view(B, L, a.n_heads, a.qk_dim)
        q_nope, q_pe = q.split([a.nope_dim, a.rope_dim], dim=-1)
        q_pe = apply_rope(q_pe, cis)
        c, k_pe = self.wkv_a(x).split([a.kv_rank, a.rope_dim], dim=-1)
        k_pe = apply_rope(k_pe.unsqueeze(2), cis).squeeze(2)
        c, k_pe = cache.append(self.kv_norm(c), k_pe)
        return q_nope, q_pe, c, k_pe

    def _weights(self, scores):
        L, S = scores.shape[-2:]
        if L > 1:
            ahead = torch.ones(L, S, dtype=torch.bool, device=scores.device).triu(S - L + 1)
            scores = scores.masked_fill(ahead, float("-inf"))
        return scores.float().softmax(dim=-1).type_as(scores)

    def expand_forward(self, x, cache):
        a = self.a
        B, L, _ = x.shape
        q_nope, q_pe, c, k_pe = self._front(x, cache)
        kv = self.wkv_b(c).view(B, -1, a.n_heads, a.nope_dim + a.v_dim)
        k_nope, v = kv.split([a.nope_dim, a.v_dim], dim=-1)
        q = torch.cat([q_nope, q_pe], dim=-1)
        k = torch.cat([k_nope, k_pe.unsqueeze(2).expand(-1, -1, a.n_heads, -1)], dim=-1)
        w = self._weights(torch.einsum("blhd,bshd->bhls", q, k) * self.scale)
        return self.wo(torch.einsum("bhls,bshd->blhd", w, v).flatten(2))

    def absorb_forward(self, x, cache):
        a = self.a
        q_nope, q_pe, c, k_pe = self._front(x, cache)
        w_b = self.wkv_b.weight.view(a.n_heads, a.nope_dim + a.v_dim, a.kv_rank)
        w_uk, w_uv = w_b[:, :a.nope_dim], w_b[:, a.nope_dim:]
        q_lat = torch.einsum("blhd,hdr->blhr", q_nope, w_uk)
        scores = torch.einsum("blhr,bsr->bhls", q_lat, c) + torch.einsum("blhp,bsp->bhls", q_pe, k_pe)
        w = self._weights(scores * self.scale)
        ctx = torch.einsum("bhls,bsr->blhr", w, c)
        return self.wo(torch.einsum("blhr,hvr->blhv", ctx, w_uv).flatten(2))

    def forward(self, x, cache):
        return self.expand_forward(x, cache) if x.size(1) > 1 else self.absorb_forward(x, cache)

"""Multi-head latent attention with a compressed cache (absorbed decode path)."""
import math
from dataclasses import dataclass
from typing import Optional, Tuple

import torch
from torch import nn


@dataclass
class MLAArgs:
    dim: int = 48
    n_heads: int = 3
    kv_lora_rank: int = 10
    qk_nope_head_dim: int = 8
    qk_rope_head_dim: int = 4
    v_head_dim: int = 6
    max_seq_len: int = 128
    rope_theta: float = 10000.0


def precompute_freqs_cis(args: MLAArgs) -> torch.Tensor:
    d = args.qk_rope_head_dim
    inv = 1.0 / (args.rope_theta ** (torch.arange(0, d, 2).float() / d))
    ang = torch.outer(torch.arange(args.max_seq_len).float(), inv)
    return torch.polar(torch.ones_like(ang), ang)


def apply_rotary_emb(x: torch.Tensor, cis: torch.Tensor) -> torch.Tensor:
    # x: [b, s, h, d]; neighbouring pairs (0,1), (2,3), ... are rotated
    z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    cis = cis.view(1, z.shape[1], 1, z.shape[-1])
    return torch.view_as_real(z * cis).flatten(3).to(x.dtype)


class LatentCache:
    """Holds [b, t, rank] latents and [b, t, rope] keys; grows as tokens come."""

    def __init__(self):
        self.c: Optional[torch.Tensor] = None
        self.r: Optional[torch.Tensor] = None

    def __len__(self):
        return 0 if self.c is None else self.c.shape[1]

    def push(self, c, r) -> Tuple[torch.Tensor, torch.Tensor]:
        if self.c is not None:
            c = torch.cat([self.c, c], dim=1)
            r = torch.cat([self.r, r], dim=1)
        self.c, self.r = c, r
        return c, r


class MLA(nn.Module):
    def __init__(self, args: MLAArgs):
        super().__init__()
        self.args = args
        h = args.n_heads
        self.qk_head_dim = args.qk_nope_head_dim + args.qk_rope_head_dim
        self.wq = nn.Linear(args.dim, h * self.qk_head_dim, bias=False)
        self.wkv_a = nn.Linear(args.dim, args.kv_lora_rank + args.qk_rope_head_dim, bias=False)
        self.kv_norm = nn.LayerNorm(args.kv_lora_rank)
        self.wkv_b = nn.Linear(args.kv_lora_rank, h * (args.qk_nope_head_dim + args.v_head_dim), bias=False)
        self.wo = nn.Linear(h * args.v_head_dim, args.dim, bias=False)
        self.softmax_scale = 1.0 / math.sqrt(self.qk_head_dim)
        self.register_buffer("freqs_cis", precompute_freqs_cis(args), persistent=False)

    def forward(self, x: torch.Tensor, cache: Optional[LatentCache] = None) -> torch.Tensor:
        """Causal. ``x`` holds the tokens that follow those in ``cache``."""
        a = self.args
        b, s, _ = x.shape
        start = len(cache) if cache is not None else 0
        cis = self.freqs_cis[start:start + s]

        q = self.wq(x).view(b, s, a.n_heads, self.qk_head_dim)
        q_nope, q_pe = q.split([a.qk_nope_head_dim, a.qk_rope_head_dim], dim=-1)
        q_pe = apply_rotary_emb(q_pe, cis)

        c, k_pe = self.wkv_a(x).split([a.kv_lora_rank, a.qk_rope_head_dim], dim=-1)
        c = self.kv_norm(c)
        k_pe = apply_rotary_emb(k_pe.unsqueeze(2), cis).squeeze(2)
        if cache is not None:
            c, k_pe = cache.push(c, k_pe)
        t = c.shape[1]

        w = self.wkv_b.weight.view(a.n_heads, a.qk_nope_head_dim + a.v_head_dim, a.kv_lora_rank)
        w_k, w_v = w[:, :a.qk_nope_head_dim], w[:, a.qk_nope_head_dim:]
        q_lat = torch.einsum("bshd,hdc->bshc", q_nope, w_k)
        scores = torch.einsum("bshc,btc->bsht", q_lat, c) + torch.einsum("bshr,btr->bsht", q_pe, k_pe)
        scores = scores * self.softmax_scale
        pos_q = torch.arange(t - s, t, device=x.device)
        hide = torch.arange(t, device=x.device)[None, :] > pos_q[:, None]
        scores = scores.masked_fill(hide[None, :, None, :], float("-inf"))
        p = scores.softmax(dim=-1, dtype=torch.float32).type_as(x)
        lat = torch.einsum("bsht,btc->bshc", p, c)
        out = torch.einsum("bshc,hdc->bshd", lat, w_v)
        return self.wo(out.flatten(2))

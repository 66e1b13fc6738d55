"""Latent-KV (MLA) attention for the product-QA model worker.

We serve with the *absorbed* form: per token only the compressed latent `c`
(kv_rank) and one shared rope key (rope_dim) are cached. The up-projections of
the keys are folded into the query, those of the values are applied after the
weighted sum:

    score = (W_uk^T q_nope) . c  +  q_rope . k_rope
    out_h = W_uv_h  sum_j p_j c_j

Scale is 1/sqrt(nope_dim + rope_dim), i.e. the width of the *uncompressed* head.
Rope pairs neighbouring channels (0,1), (2,3), ...
"""
import math
from dataclasses import dataclass
from typing import Dict

import torch
from torch import nn


@dataclass(frozen=True)
class MLAArgs:
    dim: int = 128
    heads: int = 4
    nope_dim: int = 16
    rope_dim: int = 8
    v_dim: int = 24
    kv_rank: int = 32
    theta: float = 10_000.0


class RMSNorm(nn.Module):
    def __init__(self, n, eps=1e-6):
        super().__init__()
        self.g, self.eps = nn.Parameter(torch.ones(n)), eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.g


def rotate(x, pos, theta):
    """x (B, L, ..., R); pos (L,)"""
    r = x.shape[-1]
    inv = theta ** (-torch.arange(0, r, 2, dtype=torch.float32, device=x.device) / r)
    ang = pos.float()[:, None] * inv
    cos, sin = ang.cos(), ang.sin()
    if x.dim() == 4:
        cos, sin = cos[:, None], sin[:, None]
    x0, x1 = x[..., 0::2].float(), x[..., 1::2].float()
    return torch.stack((x0 * cos - x1 * sin, x0 * sin + x1 * cos), -1).flatten(-2).to(x.dtype)


class LatentAttention(nn.Module):
    """forward(x, store=None): x (B, L, dim). `store` is a dict owned by the
    request; pass the same one with the next tokens. Causal."""

    def __init__(self, a: MLAArgs):
        super().__init__()
        self.a = a
        self.wq = nn.Linear(a.dim, a.heads * (a.nope_dim + a.rope_dim), bias=False)
        self.w_down = nn.Linear(a.dim, a.kv_rank + a.rope_dim, bias=False)
        self.norm = RMSNorm(a.kv_rank)
        self.w_uk = nn.Parameter(torch.randn(a.heads, a.nope_dim, a.kv_rank) / math.sqrt(a.kv_rank))
        self.w_uv = nn.Parameter(torch.randn(a.heads, a.v_dim, a.kv_rank) / math.sqrt(a.kv_rank))
        self.wo = nn.Linear(a.heads * a.v_dim, a.dim, bias=False)

    def forward(self, x, store: Dict[str, torch.Tensor] | None = None):
        a = self.a
        B, L, _ = x.shape
        past = 0 if not store else store["c"].shape[1]
        pos = torch.arange(past, past + L, device=x.device)

        q = self.wq(x).view(B, L, a.heads, a.nope_dim + a.rope_dim)
        q_nope, q_rope = q.split([a.nope_dim, a.rope_dim], -1)
        q_rope = rotate(q_rope, pos, a.theta)
        c, k_rope = self.w_down(x).split([a.kv_rank, a.rope_dim], -1)
        c, k_rope = self.norm(c), rotate(k_rope, pos, a.theta)
        if store is not None:
            if store:
                c = torch.cat([store["c"], c], 1)
                k_rope = torch.cat([store["kr"], k_rope], 1)
            store["c"], store["kr"] = c, k_rope

        q_lat = torch.einsum("blhn,hnr->blhr", q_nope, self.w_uk)
        s = torch.einsum("blhr,bmr->bhlm", q_lat, c)
        s = s + torch.einsum("blhr,bmr->bhlm", q_rope, k_rope)
        s = s.float() * (a.nope_dim + a.rope_dim) ** -0.5
        future = torch.arange(past + L, device=x.device)[None] > pos[:, None]
        p = s.masked_fill(future, -torch.inf).softmax(-1).type_as(x)

        o = torch.einsum("bhlm,bmr->blhr", p, c)
        o = torch.einsum("blhr,hvr->blhv", o, self.w_uv)
        return self.wo(o.reshape(B, L, a.heads * a.v_dim))


if __name__ == "__main__":
    att, st = LatentAttention(MLAArgs()), {}
    att(torch.randn(1, 5, 128), st)
    print(att(torch.randn(1, 1, 128), st).shape, st["c"].shape)

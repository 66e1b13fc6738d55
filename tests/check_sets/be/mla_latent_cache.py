"""
Multi-head latent attention with a compressed cache (DeepSeek-V2 style).

The cache holds, per token, one latent of size `kv_rank` and one rotary key of
size `rope_dim` that all heads share.  `forward(x, cache)` may be called with any
number of new tokens; it is causal with respect to absolute position.
"""
from typing import Dict, Optional

import torch
from torch import Tensor, nn


def complex_freqs(dim: int, start: int, length: int, base: float = 10000.0) -> Tensor:
    f = 1.0 / base ** (torch.arange(0, dim, 2).double() / dim)
    t = torch.arange(start, start + length).double()
    return torch.polar(torch.ones(length, dim // 2).double(), torch.outer(t, f))


def apply_rope(x: Tensor, freqs: Tensor) -> Tensor:
    """x [B, L, H, R]; neighbouring channels form one complex number."""
    z = torch.view_as_complex(x.double().reshape(*x.shape[:-1], -1, 2))
    z = z * freqs.view(1, x.shape[1], 1, -1).to(z.device)
    return torch.view_as_real(z).flatten(-2).to(x.dtype)


class LatentAttention(nn.Module):
    def __init__(self, dim=64, heads=4, nope_dim=16, rope_dim=8, v_dim=12, kv_rank=20):
        super().__init__()
        self.heads = heads
        self.nope_dim, self.rope_dim, self.v_dim, self.kv_rank = nope_dim, rope_dim, v_dim, kv_rank
        self.wq = nn.Linear(dim, heads * (nope_dim + rope_dim), bias=False)
        self.wkv_a = nn.Linear(dim, kv_rank + rope_dim, bias=False)
        self.kv_norm = nn.LayerNorm(kv_rank)
        self.wkv_b = nn.Linear(kv_rank, heads * (nope_dim + v_dim), bias=False)
        self.wo = nn.Linear(heads * v_dim, dim, bias=False)
        self.scale = (nope_dim + rope_dim) ** -0.5

    @staticmethod
    def new_cache() -> Dict[str, Optional[Tensor]]:
        return {"latent": None, "pe": None}

    def forward(self, x: Tensor, cache: Optional[Dict[str, Optional[Tensor]]] = None) -> Tensor:
        b, n, _ = x.shape
        past = 0
        if cache is not None and cache["latent"] is not None:
            past = cache["latent"].shape[1]
        freqs = complex_freqs(self.rope_dim, past, n)

        q = self.wq(x).view(b, n, self.heads, -1)
        q_nope, q_pe = q.split([self.nope_dim, self.rope_dim], dim=-1)
        q_pe = apply_rope(q_pe, freqs)

        latent, k_pe = self.wkv_a(x).split([self.kv_rank, self.rope_dim], dim=-1)
        latent = self.kv_norm(latent)
        k_pe = apply_rope(k_pe.unsqueeze(2), freqs).squeeze(2)

        if cache is not None:
            if past:
                latent = torch.cat([cache["latent"], latent], 1)
                k_pe = torch.cat([cache["pe"], k_pe], 1)
            cache["latent"], cache["pe"] = latent, k_pe

        # absorb the up-projections, so keys and values are never materialised
        w = self.wkv_b.weight.view(self.heads, self.nope_dim + self.v_dim, self.kv_rank)
        w_k, w_v = w[:, : self.nope_dim], w[:, self.nope_dim:]
        q_lat = torch.einsum("blhd,hdr->blhr", q_nope, w_k)

        s = torch.einsum("blhr,bsr->bhls", q_lat, latent) + torch.einsum("blhr,bsr->bhls", q_pe, k_pe)
        s = s * self.scale
        total = latent.shape[1]
        i = torch.arange(past, total, device=x.device).unsqueeze(1)
        j = torch.arange(total, device=x.device).unsqueeze(0)
        s = s.masked_fill(j > i, float("-inf"))
        p = torch.softmax(s, dim=-1)

        ctx = torch.einsum("bhls,bsr->blhr", p, latent)
        out = torch.einsum("blhr,hdr->blhd", ctx, w_v)
        return self.wo(out.flatten(2))

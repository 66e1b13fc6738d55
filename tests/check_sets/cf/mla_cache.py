"""Multi-head latent attention with an absorbed key projection.

Only two small things are cached per token: the compressed latent ``c`` (shared
by all heads) and one rotated key ``k_pe`` (also shared by all heads).  The
up-projection of the keys is folded into the query and the up-projection of the
values is applied after the weighted sum, so full keys are never built.

Logit of a head:  (q_nope . W_uk c  +  q_pe . k_pe) / sqrt(d_nope + d_pe)
"""
from typing import Optional
import torch
import torch.nn as nn


def rope_interleaved(x: torch.Tensor, pos: torch.Tensor) -> torch.Tensor:
    """x [B, T, ..., d] with pairs (0,1), (2,3), ...; pos [T]."""
    d = x.shape[-1]
    theta = 10000.0 ** (-torch.arange(0, d, 2, device=x.device).float() / d)
    ang = pos.float()[:, None] * theta
    ang = ang.view(1, pos.numel(), *([1] * (x.dim() - 3)), d // 2)
    c, s = ang.cos().to(x.dtype), ang.sin().to(x.dtype)
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * c - odd * s, even * s + odd * c), dim=-1).flatten(-2)


class LatentAttention(nn.Module):
    def __init__(self, dim=64, n_heads=4, rank=24, d_nope=16, d_pe=8, d_v=12,
                 max_batch=8, max_len=256):
        super().__init__()
        self.n_heads, self.d_nope, self.d_pe, self.d_v = n_heads, d_nope, d_pe, d_v
        self.rank = rank
        self.w_q = nn.Linear(dim, n_heads * (d_nope + d_pe), bias=False)
        self.w_dkv = nn.Linear(dim, rank + d_pe, bias=False)
        self.norm_c = nn.RMSNorm(rank, eps=1e-6)
        self.w_uk = nn.Parameter(torch.randn(n_heads, d_nope, rank) * rank ** -0.5)
        self.w_uv = nn.Parameter(torch.randn(n_heads, d_v, rank) * rank ** -0.5)
        self.w_o = nn.Linear(n_heads * d_v, dim, bias=False)
        self.scale = (d_nope + d_pe) ** -0.5
        self.register_buffer("cache_c", torch.zeros(max_batch, max_len, rank), persistent=False)
        self.register_buffer("cache_pe", torch.zeros(max_batch, max_len, d_pe), persistent=False)

    @torch.no_grad()
    def forward(self, x: torch.Tensor, start_pos: int = 0) -> torch.Tensor:
        """x: [B, T, dim], the tokens at positions start_pos .. start_pos+T-1."""
        B, T, _ = x.shape
        end = start_pos + T
        pos = torch.arange(start_pos, end, device=x.device)

        q = self.w_q(x).view(B, T, self.n_heads, -1)
        q_nope, q_pe = q.split([self.d_nope, self.d_pe], dim=-1)
        q_pe = rope_interleaved(q_pe, pos)
        c, k_pe = self.w_dkv(x).split([self.rank, self.d_pe], dim=-1)
        self.cache_c[:B, start_pos:end] = self.norm_c(c)
        self.cache_pe[:B, start_pos:end] = rope_interleaved(k_pe, pos)
        c, k_pe = self.cache_c[:B, :end], self.cache_pe[:B, :end]

        q_abs = torch.einsum("bthn,hnr->bthr", q_nope, self.w_uk)
        scores = torch.einsum("bthr,bsr->bths", q_abs, c)
        scores = scores + torch.einsum("bthp,bsp->bths", q_pe, k_pe)
        scores = scores * self.scale

        future = torch.arange(end, device=x.device)[None, :] > pos[:, None]     # [T, S]
        scores = scores.masked_fill(future[None, :, None, :], float("-inf"))
        probs = scores.softmax(dim=-1, dtype=torch.float32).type_as(x)
        ctx = torch.einsum("bths,bsr->bthr", probs, c)
        out = torch.einsum("bthr,hvr->bthv", ctx, self.w_uv)
        return self.w_o(out.flatten(2))

"""PaLM-style parallel block: y = x + Attn(LN(x)) + SwiGLU(LN(x)), one fused input matmul.

Multi-query attention (H query heads, ONE shared key head and ONE shared value head),
rotary positions in the half-split ("rotate_half") layout, causal.

    x    (B, T, D)   position t of the output depends on positions 0..t only
    out  (B, T, D)

The softmax runs in float32 whatever the dtype of x is.
"""
import torch
from torch import nn
import torch.nn.functional as F


def angles(T, d, device):
    inv = 1.0 / 10000 ** (torch.arange(0, d, 2, device=device).float() / d)
    th = torch.outer(torch.arange(T, device=device).float(), inv)
    return torch.cat([th, th], dim=-1)


def rot(x, th):
    a, b = x.chunk(2, dim=-1)
    return x * th.cos().to(x.dtype) + torch.cat([-b, a], dim=-1) * th.sin().to(x.dtype)


class ParallelBlock(nn.Module):
    def __init__(self, dim, heads=4, dim_head=8, ff_mult=2):
        super().__init__()
        self.heads, self.dh = heads, dim_head
        inner_ff = dim * ff_mult
        self.sizes = (heads * dim_head, dim_head, dim_head, inner_ff, inner_ff)
        self.norm = nn.LayerNorm(dim)
        self.wi = nn.Linear(dim, sum(self.sizes), bias=False)
        self.attn_out = nn.Linear(heads * dim_head, dim, bias=False)
        self.ff_out = nn.Linear(inner_ff, dim, bias=False)

    def forward(self, x):
        B, T, _ = x.shape
        q, k, v, up, gate = self.wi(self.norm(x)).split(self.sizes, dim=-1)
        th = angles(T, self.dh, x.device)
        q = rot(q.view(B, T, self.heads, self.dh).transpose(1, 2), th) * self.dh ** -0.5
        k = rot(k, th)
        sim = torch.einsum("bhid,bjd->bhij", q, k).float()
        future = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
        attn = sim.masked_fill(future, float("-inf")).softmax(dim=-1).to(v.dtype)
        o = torch.einsum("bhij,bjd->bihd", attn, v).reshape(B, T, -1)
        return x + self.attn_out(o) + self.ff_out(F.silu(gate) * up)

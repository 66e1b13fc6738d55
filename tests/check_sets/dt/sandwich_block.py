"""Sandwich-norm decoder block with grouped queries, as we train it in the small-lm repo.

    x -> x + N2(Attn(N1(x))) -> x + N4(FFN(N3(x)))

Attention is causal. There are `heads` query heads and `kv_heads` key/value heads;
neighbouring query heads share one key/value head (query heads 0..g-1 use kv head 0,
g..2g-1 use kv head 1, ... with g = heads // kv_heads). Queries and keys are
RMS-normalised per head before the dot product ("QK norm"), then the usual 1/sqrt(head_dim).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class RMS(nn.Module):
    def __init__(self, n, eps=1e-6):
        super().__init__()
        self.g = nn.Parameter(torch.ones(n))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.g


class GroupedAttention(nn.Module):
    def __init__(self, dim, heads, kv_heads):
        super().__init__()
        assert dim % heads == 0 and heads % kv_heads == 0
        self.h, self.kv, self.d = heads, kv_heads, dim // heads
        self.to_q = nn.Linear(dim, heads * self.d, bias=False)
        self.to_kv = nn.Linear(dim, 2 * kv_heads * self.d, bias=False)
        self.qn, self.kn = RMS(self.d), RMS(self.d)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        B, T, _ = x.shape
        g = self.h // self.kv
        q = self.to_q(x).view(B, T, self.kv, g, self.d)
        k, v = self.to_kv(x).view(B, T, 2, self.kv, self.d).unbind(2)
        q, k = self.qn(q), self.kn(k)
        # (B, kv, g*T, d) against (B, kv, T, d): the group is laid along the query axis,
        # so no key or value is ever copied
        q = q.permute(0, 2, 3, 1, 4).reshape(B, self.kv, g * T, self.d)
        k, v = k.transpose(1, 2), v.transpose(1, 2)
        pos = torch.arange(T, device=x.device)
        ok = (pos[:, None] >= pos[None, :]).repeat(g, 1)          # (g*T, T)
        o = F.scaled_dot_product_attention(q, k, v, attn_mask=ok)
        o = o.view(B, self.kv, g, T, self.d).permute(0, 3, 1, 2, 4).reshape(B, T, -1)
        return self.out(o)


class SandwichBlock(nn.Module):
    """x: (B, T, dim) -> (B, T, dim)."""

    def __init__(self, dim=64, heads=8, kv_heads=2, mult=4):
        super().__init__()
        self.n = nn.ModuleList([RMS(dim) for _ in range(4)])
        self.attn = GroupedAttention(dim, heads, kv_heads)
        self.up = nn.Linear(dim, 2 * mult * dim, bias=False)
        self.down = nn.Linear(mult * dim, dim, bias=False)

    def forward(self, x):
        x = x + self.n[1](self.attn(self.n[0](x)))
        a, b = self.up(self.n[2](x)).chunk(2, dim=-1)
        return x + self.n[3](self.down(F.silu(a) * b))

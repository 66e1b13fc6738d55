"""Attention layer with a growing cache, for speculative decoding.

The draft model proposes a few tokens, the big model checks them in one call, so `x` may hold
any number of new tokens and the cache may already be long.

forward(x, past=None)
    x    (B, L, D) new tokens, they follow directly on those in the cache
    past (k, v), each (B, kv_heads, P, d), or None
    -> (B, L, D), (k, v) with P + L entries

Conventions (those of the Llama checkpoints): causal; 1/sqrt(d); half-split rotary embedding of
q and k at the position of the token in the whole sequence, keys are cached after rotation;
query heads i*g .. i*g+g-1 read kv head i, where g = heads / kv_heads.
"""
import torch
import torch.nn as nn


def rope(x, pos):
    d = x.shape[-1]
    freq = 10000.0 ** (-torch.arange(0, d, 2, device=x.device, dtype=torch.float32) / d)
    ang = pos[:, None].float() * freq
    cos = torch.cat((ang.cos(), ang.cos()), -1).to(x.dtype)
    sin = torch.cat((ang.sin(), ang.sin()), -1).to(x.dtype)
    rot = torch.cat((-x[..., d // 2:], x[..., : d // 2]), -1)
    return x * cos + rot * sin


class SpecAttention(nn.Module):
    def __init__(self, D=64, heads=8, kv_heads=2):
        super().__init__()
        self.heads, self.kv_heads, self.d = heads, kv_heads, D // heads
        self.q = nn.Linear(D, D, bias=False)
        self.k = nn.Linear(D, kv_heads * self.d, bias=False)
        self.v = nn.Linear(D, kv_heads * self.d, bias=False)
        self.o = nn.Linear(D, D, bias=False)

    def forward(self, x, past=None):
        B, L, D = x.shape
        q = self.q(x).view(B, L, self.heads, self.d).transpose(1, 2)
        k = self.k(x).view(B, L, self.kv_heads, self.d).transpose(1, 2)
        v = self.v(x).view(B, L, self.kv_heads, self.d).transpose(1, 2)
        pos = torch.arange(L, device=x.device)
        q, k = rope(q, pos), rope(k, pos)
        if past is not None:
            k = torch.cat((past[0], k), dim=2)
            v = torch.cat((past[1], v), dim=2)
        present = (k, v)
        g = self.heads // self.kv_heads
        k, v = k.repeat(1, g, 1, 1), v.repeat(1, g, 1, 1)
        s = q @ k.transpose(2, 3) * self.d ** -0.5
        seen = torch.ones(L, k.size(2), dtype=torch.bool, device=x.device).tril()
        p = s.masked_fill(~seen, float("-inf")).softmax(-1)
        return self.o((p @ v).transpose(1, 2).reshape(B, L, D)), present

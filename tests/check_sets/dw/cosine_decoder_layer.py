"""Pre-norm decoder layer with cosine attention (as in the "22B" style of QK normalisation).

Shapes
------
x        (B, T, dim)     token features
pos      (T,) int64      absolute positions of the T tokens
returns  (B, T, dim)

Queries and keys are brought to unit length head by head, turned by RoPE (rotate-half
layout: channel i pairs with channel i + hd/2) and multiplied by one learned temperature
per query head, exp(log_temp).  There is on purpose NO 1/sqrt(hd): cosines are in [-1, 1]
and the temperature does that work.  `kv_heads` may be smaller than `heads`; query head h
reads kv head h // (heads // kv_heads).  Each token sees itself and earlier tokens.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.g = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.g


def rope(x, pos, base=10000.0):
    half = x.shape[-1] // 2
    freq = base ** (-torch.arange(half, dtype=torch.float32) / half)
    ang = pos.float()[:, None] * freq[None]
    c, s = ang.cos(), ang.sin()
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * c - b * s, b * c + a * s), dim=-1)


class DecoderLayer(nn.Module):
    def __init__(self, dim, heads, kv_heads, mult=4):
        super().__init__()
        self.h, self.g, self.hd = heads, kv_heads, dim // heads
        self.n1, self.n2 = RMSNorm(dim), RMSNorm(dim)
        self.wq = nn.Linear(dim, heads * self.hd, bias=False)
        self.wkv = nn.Linear(dim, 2 * kv_heads * self.hd, bias=False)
        self.wo = nn.Linear(heads * self.hd, dim, bias=False)
        self.log_temp = nn.Parameter(torch.linspace(1.0, 2.0, heads))
        self.up = nn.Linear(dim, 2 * mult * dim, bias=False)
        self.down = nn.Linear(mult * dim, dim, bias=False)

    def attend(self, x, pos):
        b, t, _ = x.shape
        q = self.wq(x).view(b, t, self.h, self.hd).transpose(1, 2)
        k, v = self.wkv(x).view(b, t, 2, self.g, self.hd).permute(2, 0, 3, 1, 4)
        q = rope(F.normalize(q, dim=-1), pos) * self.log_temp.exp().view(1, -1, 1, 1)
        k = rope(F.normalize(k, dim=-1), pos)
        k = k.repeat_interleave(self.h // self.g, dim=1)
        v = v.repeat_interleave(self.h // self.g, dim=1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=1.0)
        return self.wo(y.transpose(1, 2).reshape(b, t, -1))

    def forward(self, x, pos):
        x = x + self.attend(self.n1(x), pos)
        gate, val = self.up(self.n2(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * val)

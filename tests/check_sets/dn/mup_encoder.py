"""Encoder block in maximal update parametrisation (muP, Yang et al. 2022).

With muP the scores are divided by the head width d and not by its square root,
because queries and keys become correlated in training:

    scores = alpha * sqrt(base_d) * q.k / d

so that a model with d = base_d and alpha = 1 has the usual 1/sqrt(d).  The
queries start at zero, as the paper advises (set zero_query=False to load other
weights).

MuEncoderBlock(dim, heads, base_d, alpha)
    forward(x, pad=None)
        x     (L, B, dim), length first
        pad   (B, L) bool, True = padding, which is not read
              (at least one False in each row)
        ->    (L, B, dim)
The block is post-norm:  x = LN(x + attn(x));  x = LN(x + mlp(x)).
"""
import torch
from torch import nn


class MuSelfAttention(nn.Module):
    def __init__(self, dim, heads, base_d=32, alpha=1.0, zero_query=True):
        super().__init__()
        if dim % heads:
            raise ValueError("dim has to be a multiple of heads")
        self.heads = heads
        self.d = dim // heads
        self.mult = alpha * base_d ** 0.5 / self.d
        self.q_proj = nn.Linear(dim, dim)
        self.k_proj = nn.Linear(dim, dim)
        self.v_proj = nn.Linear(dim, dim)
        self.o_proj = nn.Linear(dim, dim)
        for lin in (self.k_proj, self.v_proj, self.o_proj):
            nn.init.normal_(lin.weight, std=dim ** -0.5)
            nn.init.zeros_(lin.bias)
        if zero_query:
            nn.init.zeros_(self.q_proj.weight)
            nn.init.zeros_(self.q_proj.bias)

    def fold(self, t):
        # (L, B, H*d) -> (B*H, L, d)
        L, B, _ = t.shape
        return t.reshape(L, B * self.heads, self.d).transpose(0, 1)

    def forward(self, x, pad=None):
        L, B, C = x.shape
        q, k, v = self.fold(self.q_proj(x)), self.fold(self.k_proj(x)), self.fold(self.v_proj(x))
        s = torch.bmm(q, k.transpose(1, 2)) * self.mult            # (B*H, L, L)
        if pad is not None:
            rows = pad.repeat_interleave(self.heads, dim=0)        # (B*H, L)
            s = s.masked_fill(rows.unsqueeze(1), float("-inf"))
        y = torch.bmm(torch.softmax(s, dim=2), v)                  # (B*H, L, d)
        y = y.transpose(0, 1).reshape(L, B, C)
        return self.o_proj(y)


class MuEncoderBlock(nn.Module):
    def __init__(self, dim, heads, base_d=32, alpha=1.0, zero_query=True, mlp=4):
        super().__init__()
        self.attn = MuSelfAttention(dim, heads, base_d, alpha, zero_query)
        self.ln1 = nn.LayerNorm(dim)
        self.ln2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, mlp * dim), nn.ReLU(), nn.Linear(mlp * dim, dim))

    def forward(self, x, pad=None):
        x = self.ln1(x + self.attn(x, pad))
        return self.ln2(x + self.mlp(x))

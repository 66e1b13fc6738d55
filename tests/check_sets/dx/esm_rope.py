"""ESM-2 style protein encoder layer (Lin et al. 2022), written from the paper's description.

tokens are already embedded: x (B, L, D). pad (B, L) bool, True where there is NO residue.
Pre-norm; rotary embedding (RoFormer) on queries and keys, with half-split channels: channel m
and channel m + d/2 form the plane that turns by position * 10000^(-2m/d), m = 0 .. d/2-1, so
that every score depends on the positions only through i - j. Scores are divided by sqrt(d).
Rows at padding are computed like the others, the caller drops them.
"""
import math

import torch
import torch.nn as nn


class Rotary(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.register_buffer("inv_freq", 10000.0 ** (-torch.arange(0, d, 2).float() / d))

    @staticmethod
    def half_turn(x):
        a, b = x.chunk(2, dim=-1)
        return torch.cat((-b, a), dim=-1)

    def forward(self, q, k):
        t = torch.arange(q.shape[-2], device=q.device).type_as(self.inv_freq)
        ang = torch.outer(t, self.inv_freq)
        ang = ang.repeat_interleave(2, dim=-1)
        cos, sin = ang.cos(), ang.sin()
        return q * cos + self.half_turn(q) * sin, k * cos + self.half_turn(k) * sin


class ESMLayer(nn.Module):
    def __init__(self, D=64, heads=4):
        super().__init__()
        self.heads, self.d = heads, D // heads
        self.ln_attn, self.ln_ffn = nn.LayerNorm(D), nn.LayerNorm(D)
        self.q_proj, self.k_proj = nn.Linear(D, D), nn.Linear(D, D)
        self.v_proj, self.out_proj = nn.Linear(D, D), nn.Linear(D, D)
        self.rot = Rotary(self.d)
        self.fc1, self.fc2 = nn.Linear(D, 4 * D), nn.Linear(4 * D, D)

    def forward(self, x, pad=None):
        B, L, D = x.shape
        h = self.ln_attn(x)
        q, k, v = (
            f(h).view(B, L, self.heads, self.d).transpose(1, 2)
            for f in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k = self.rot(q, k)
        s = torch.einsum("bhid,bhjd->bhij", q, k) / math.sqrt(self.d)
        if pad is not None:
            s = s.masked_fill(pad[:, None, None, :], float("-inf"))
        y = torch.einsum("bhij,bhjd->bihd", s.softmax(-1), v).reshape(B, L, D)
        x = x + self.out_proj(y)
        return x + self.fc2(nn.functional.gelu(self.fc1(self.ln_ffn(x))))

"""Relative self attention of our Conformer acoustic model (Transformer-XL form).

    score(i, j) = ((q_i + u) . k_j + (q_i + v) . W_r r_{i-j}) / sqrt(d_head)

r_n is the sinusoidal embedding of the signed distance n = i - j, computed for
n = T-1 ... -(T-1).  u, v: learned [heads, d_head].

RelAttention(dim, heads)(x, lengths)
    x        [B, T, dim] acoustic frames
    lengths  [B] int, number of real frames (>= 1); frames behind are not heard
returns [B, T, dim]; rows of padded frames are set to zero.
"""
import math

import torch
from torch import nn


def distance_table(T, dim, device=None):
    """[2T-1, dim]; row m belongs to the distance T-1-m"""
    n = torch.arange(T - 1, -T, -1.0, device=device)
    inv = torch.exp(torch.arange(0, dim, 2, device=device) * (-math.log(1e4) / dim))
    ang = n[:, None] * inv[None, :]
    out = torch.zeros(2 * T - 1, dim, device=device)
    out[:, 0::2] = ang.sin()
    out[:, 1::2] = ang.cos()
    return out


class RelAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        assert dim % heads == 0
        self.h, self.d = heads, dim // heads
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.r = nn.Linear(dim, dim, bias=False)
        self.o = nn.Linear(dim, dim)
        self.u_bias = nn.Parameter(torch.randn(heads, self.d) * 0.1)
        self.v_bias = nn.Parameter(torch.randn(heads, self.d) * 0.1)

    @staticmethod
    def shift(s):
        """[B, H, T, 2T-1] indexed by table row -> [B, H, T, T] indexed by j"""
        B, H, T, M = s.shape
        s = torch.cat([s.new_zeros(B, H, T, 1), s], dim=-1)
        s = s.view(B, H, M + 1, T)[:, :, 1:].reshape(B, H, T, M)
        return s[..., :T]

    def forward(self, x, lengths):
        B, T, D = x.shape
        heads = lambda t: t.view(B, T, self.h, self.d)
        q, k, v = heads(self.q(x)), heads(self.k(x)), heads(self.v(x))
        r = self.r(distance_table(T, D, x.device)).view(2 * T - 1, self.h, self.d)
        ac = torch.einsum("bihd,bjhd->bhij", q + self.u_bias, k)
        bd = self.shift(torch.einsum("bihd,mhd->bhim", q + self.v_bias, r))
        s = (ac + bd) / math.sqrt(self.d)
        real = torch.arange(T, device=x.device)[None] < lengths[:, None]
        s = s.masked_fill(~real[:, None, None, :], float("-inf"))
        y = torch.einsum("bhij,bjhd->bihd", s.softmax(-1), v).reshape(B, T, D)
        return self.o(y) * real[..., None]

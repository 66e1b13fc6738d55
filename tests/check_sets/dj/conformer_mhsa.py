"""Conformer (Gulati et al., 2020): MHSA module with the relative positional encoding
of Transformer-XL (Dai et al., 2019):

    A_ij = [ (q_i + u) . k_j  +  (q_i + v) . W_r r_(i-j) ] / sqrt(d_head)

r_p is the sinusoid of the signed distance p. We compute (q + v) R^T for the 2L-1
distances L-1, ..., 0, ..., -(L-1) and move it into place with the usual shift.
"""
import math

import torch
from torch import nn


def rel_table(L, D):
    """(2L-1, D), row r holds the encoding of the distance L-1-r."""
    p = torch.arange(L - 1, -L, -1).float().unsqueeze(1)
    div = torch.exp(torch.arange(0, D, 2).float() * (-math.log(10000.0) / D))
    t = torch.zeros(2 * L - 1, D)
    t[:, 0::2] = torch.sin(p * div)
    t[:, 1::2] = torch.cos(p * div)
    return t


def rel_shift(x):
    """(B, H, L, 2L-1) -> (B, H, L, L); entry [i, j] of the result is entry [i, L-1-i+j]."""
    B, H, L, n = x.shape
    x = torch.cat([x.new_zeros(B, H, L, 1), x], dim=-1)
    x = x.view(B, H, n + 1, L)[:, :, 1:].view(B, H, L, n)
    return x[..., :L]


class ConformerMHSA(nn.Module):
    """x (B, L, D) frames; frames (B, L) bool, True = real frame, False = padding.
    Returns x + MHSA(LayerNorm(x)), (B, L, D)."""

    def __init__(self, D=32, heads=4, p=0.1):
        super().__init__()
        self.h, self.d = heads, D // heads
        self.norm = nn.LayerNorm(D)
        self.q = nn.Linear(D, D)
        self.k = nn.Linear(D, D)
        self.v = nn.Linear(D, D)
        self.r = nn.Linear(D, D, bias=False)
        self.o = nn.Linear(D, D)
        self.u_bias = nn.Parameter(torch.randn(heads, self.d) * 0.2)
        self.v_bias = nn.Parameter(torch.randn(heads, self.d) * 0.2)
        self.drop = nn.Dropout(p)

    def forward(self, x, frames=None):
        B, L, D = x.shape
        y = self.norm(x)
        q = self.q(y).view(B, L, self.h, self.d)
        k = self.k(y).view(B, L, self.h, self.d).permute(0, 2, 3, 1)
        v = self.v(y).view(B, L, self.h, self.d).transpose(1, 2)
        r = self.r(rel_table(L, D).to(x)).view(1, -1, self.h, self.d).permute(0, 2, 3, 1)

        content = (q + self.u_bias).transpose(1, 2) @ k
        position = rel_shift((q + self.v_bias).transpose(1, 2) @ r)
        s = (content + position) / math.sqrt(self.d)
        if frames is not None:
            s = s.masked_fill(~frames.view(B, 1, 1, L), torch.finfo(s.dtype).min)
        a = self.drop(torch.softmax(s, dim=-1))
        y = (a @ v).transpose(1, 2).contiguous().view(B, L, D)
        return x + self.drop(self.o(y))

"""RoFormer (Su et al. 2021) self attention with complex numbers and a preallocated cache.

Eq. (34): the pair (x_{2i}, x_{2i+1}) is one complex number, and position m multiplies
it by exp(1j * m * theta_i) with theta_i = 10000^(-2i/d), i = 0 .. d/2-1.
Queries and keys are turned, values are not.
"""
import torch
from torch import nn


def freqs_cis(dim, max_len, base=10000.0):
    theta = base ** (-torch.arange(0, dim, 2).double() / dim)
    ang = torch.outer(torch.arange(max_len).double(), theta)
    return torch.polar(torch.ones_like(ang), ang).to(torch.complex64)   # (max_len, dim/2)


def turn(x, f):
    """x (B, T, H, d) real, f (T, d/2) complex."""
    xc = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(xc * f[None, :, None, :]).flatten(-2).type_as(x)


class RoSelfAttention(nn.Module):
    """Causal. `forward(x, start_pos)` takes x (B, T, D), the tokens at positions
    start_pos .. start_pos+T-1; everything before must have been fed already (same B).
    Start a new text with start_pos=0. Returns (B, T, D)."""

    def __init__(self, dim=32, n_heads=4, max_batch=4, max_len=64):
        super().__init__()
        self.h, self.d = n_heads, dim // n_heads
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, dim, bias=False)
        self.wv = nn.Linear(dim, dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)
        self.register_buffer("f", freqs_cis(self.d, max_len), persistent=False)
        shape = (max_batch, max_len, n_heads, self.d)
        self.register_buffer("ck", torch.zeros(shape), persistent=False)
        self.register_buffer("cv", torch.zeros(shape), persistent=False)

    @torch.no_grad()
    def forward(self, x, start_pos=0):
        B, T, D = x.shape
        end = start_pos + T
        q = self.wq(x).view(B, T, self.h, self.d)
        k = self.wk(x).view(B, T, self.h, self.d)
        v = self.wv(x).view(B, T, self.h, self.d)
        f = self.f[start_pos:end]
        q, k = turn(q, f), turn(k, f)
        self.ck[:B, start_pos:end] = k
        self.cv[:B, start_pos:end] = v
        K, V = self.ck[:B, :end], self.cv[:B, :end]

        s = torch.einsum("bthd,bshd->bhts", q, K) * self.d ** -0.5
        if T > 1:
            hide = torch.full((T, T), float("-inf"), device=x.device).triu(1)
            s = s + torch.cat([torch.zeros(T, start_pos, device=x.device), hide], dim=1)
        o = torch.einsum("bhts,bshd->bthd", s.softmax(-1), V)
        return self.wo(o.reshape(B, T, D))

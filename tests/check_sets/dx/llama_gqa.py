"""Grouped-query self-attention, Llama 2 (Touvron et al. 2023). No cache, training only.

x: (b, t, c) -> (b, t, c). Causal: position i reads positions j <= i.
H query heads, G key/value heads; query head h reads key/value head h // (H / G).
Rotary on q and k, pairs (2i, 2i+1), base 10000, positions 0 .. t-1. Scale (c/H)^-1/2.
"""
import torch
from torch import nn
from torch.nn import functional as F


def R(x):
    # x: b t n d
    b, t, n, d = x.shape
    w = 1e4 ** (-torch.arange(0, d, 2, device=x.device) / d)
    a = torch.arange(t, device=x.device)[:, None] * w
    c, s = a.cos()[:, None], a.sin()[:, None]
    u, v = x[..., 0::2], x[..., 1::2]
    return torch.stack((u * c - v * s, u * s + v * c), -1).flatten(3)


class A(nn.Module):
    def __init__(self, c=48, H=6, G=2):
        super().__init__()
        self.H, self.G, self.d = H, G, c // H
        self.q = nn.Linear(c, H * self.d, bias=False)
        self.k = nn.Linear(c, G * self.d, bias=False)
        self.v = nn.Linear(c, G * self.d, bias=False)
        self.o = nn.Linear(H * self.d, c, bias=False)

    def forward(self, x):
        b, t, c = x.shape
        r = self.H // self.G
        q = R(self.q(x).view(b, t, self.H, self.d))
        k = R(self.k(x).view(b, t, self.G, self.d))
        v = self.v(x).view(b, t, self.G, self.d)
        k = k.repeat(1, r, 1, 1).view(b, t, self.H, self.d)
        v = v.repeat(1, r, 1, 1).view(b, t, self.H, self.d)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).reshape(b, t, -1))

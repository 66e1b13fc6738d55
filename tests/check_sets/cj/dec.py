"""tiny decoder used in the speculative decoding experiments.
G query heads read each kv head (consecutive ones). rotary = interleaved pairs (x0,x1),(x2,x3)..
"""
import torch
from torch import nn


def rot(x, p, base=10000.0):
    # x: b h l d ; p: l (absolute positions)
    d = x.shape[-1]
    f = base ** (-torch.arange(0, d, 2, device=x.device, dtype=torch.float32) / d)
    t = p[:, None].float() * f[None]
    c, s = t.cos().to(x.dtype), t.sin().to(x.dtype)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * c - b * s, a * s + b * c], dim=-1).flatten(-2)


class A(nn.Module):
    """causal. z is (k, v) of everything seen so far, already rotated, or None."""

    def __init__(self, e=32, h=4, g=2):
        super().__init__()
        self.h, self.g, self.d = h, g, e // h
        self.q = nn.Linear(e, h * self.d, bias=False)
        self.k = nn.Linear(e, g * self.d, bias=False)
        self.v = nn.Linear(e, g * self.d, bias=False)
        self.o = nn.Linear(h * self.d, e, bias=False)

    def forward(self, x, z=None):
        b, l, _ = x.shape
        n = 0 if z is None else z[0].shape[2]
        p = torch.arange(n, n + l, device=x.device)
        q = rot(self.q(x).view(b, l, self.h, self.d).transpose(1, 2), p)
        k = rot(self.k(x).view(b, l, self.g, self.d).transpose(1, 2), p)
        v = self.v(x).view(b, l, self.g, self.d).transpose(1, 2)
        if z is not None:
            k = torch.cat([z[0], k], 2)
            v = torch.cat([z[1], v], 2)
        # b g r l d: r query heads per kv head, no copy of k and v
        q = q.view(b, self.g, self.h // self.g, l, self.d)
        w = torch.einsum("bgrid,bgjd->bgrij", q, k) / self.d**0.5
        j = torch.arange(n + l, device=x.device)
        w = w.masked_fill(j[None, :] > p[:, None], float("-inf")).softmax(-1)
        y = torch.einsum("bgrij,bgjd->bgrid", w, v)
        y = y.reshape(b, self.h, l, self.d).transpose(1, 2).reshape(b, l, -1)
        return self.o(y), (k, v)


class M(nn.Module):
    def __init__(self, n=50, e=32, h=4, g=2, r=2):
        super().__init__()
        self.w = nn.Embedding(n, e)
        self.a = nn.ModuleList(A(e, h, g) for _ in range(r))
        self.m = nn.ModuleList(nn.RMSNorm(e) for _ in range(r))
        self.u = nn.Linear(e, n, bias=False)

    def forward(self, t, z=None):
        x = self.w(t)
        z = z or [None] * len(self.a)
        y = []
        for a, m, c in zip(self.a, self.m, z):
            o, c = a(m(x), c)
            x = x + o
            y.append(c)
        return self.u(x), y

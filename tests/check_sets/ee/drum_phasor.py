"""Drum loop model: positions are phases of little rotating pointers (RoPE, complex form).

PhasorDrums(d, heads, slowest=10000.0)   d / heads must be even

forward(x, past=None)
    x     (B, L, d)    next L steps of the loop
    past  None, or the pair returned by the last call: rotated keys and values of all
          earlier steps, each (B, P, heads, d // heads)
returns (y (B, L, d), past)

Features (2m, 2m+1) of a query or key form a complex number; at step n of the loop (n
counts from the start of the loop, not of the chunk) it is turned by the angle
n * slowest ** (-2m / d_head).  A step hears itself and everything before it.
Feeding a loop in one piece or in chunks gives the same y.
"""
import torch
from torch import nn


class PhasorDrums(nn.Module):
    def __init__(self, d, heads, slowest=10000.0):
        super().__init__()
        self.heads = heads
        e = d // heads
        self.register_buffer("speed", slowest ** (-torch.arange(0, e, 2) / e), persistent=False)
        self.inn = nn.Linear(d, 3 * d, bias=False)
        self.out = nn.Linear(d, d, bias=False)

    def turn(self, t, start):
        """t (B, L, heads, e)"""
        n = torch.arange(start, start + t.shape[1], device=t.device)
        phase = n[:, None] * self.speed                          # L, e/2
        spin = torch.polar(torch.ones_like(phase), phase)[:, None, :]
        z = torch.view_as_complex(t.float().unflatten(-1, (-1, 2)))
        return torch.view_as_real(z * spin).flatten(-2).type_as(t)

    def forward(self, x, past=None):
        L = x.shape[1]
        q, k, v = (p.unflatten(-1, (self.heads, -1)) for p in self.inn(x).chunk(3, -1))
        P = 0 if past is None else past[0].shape[1]
        q, k = self.turn(q, P), self.turn(k, P)
        if past is not None:
            k, v = torch.cat([past[0], k], 1), torch.cat([past[1], v], 1)
        s = torch.einsum("blhe,bmhe->bhlm", q, k) * q.shape[-1] ** -0.5
        ahead = torch.ones(L, P + L, dtype=torch.bool, device=x.device).triu(P + 1)
        a = s.masked_fill(ahead, float("-inf")).softmax(-1)
        y = torch.einsum("bhlm,bmhe->blhe", a, v).flatten(-2)
        return self.out(y), (k, v)

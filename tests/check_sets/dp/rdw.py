"""rdw: rotary + local window + kv list, decoder only, tiny.

RoPE in the half-split form: in a head of width d the channels (c, c + d/2) are a
pair and turn by  position * 10000 ** (-2c/d),  c = 0 .. d/2 - 1.

Window: a token reads exactly W tokens, itself and the W-1 before it (fewer at the
start); nothing later.

``Rdw(n, h, W)``;  fwd(x, mem=None)
    x   : (B, T, n) next T tokens
    mem : None or (k, v), each (B, h, P, d); k already turned
returns (y (B, T, n), (k, v)); position of x[:, t] is P + t; logits / sqrt(d).
"""
import torch
import torch.nn as nn


def hlf(z):
    a, b = z.chunk(2, -1)
    return torch.cat((-b, a), -1)


def spin(z, pos):
    d = z.shape[-1]
    f = 10000.0 ** (-torch.arange(0, d, 2, device=z.device).float() / d)
    t = torch.outer(pos.float(), f)
    t = t.repeat_interleave(2, dim=-1)
    return z * t.cos() + hlf(z) * t.sin()


class Rdw(nn.Module):
    def __init__(self, n, h, W):
        super().__init__()
        self.h, self.d, self.W = h, n // h, W
        self.a = nn.Linear(n, 3 * n, bias=False)
        self.z = nn.Linear(n, n, bias=False)

    def fwd(self, x, mem=None):
        B, T, n = x.shape
        P = 0 if mem is None else mem[0].shape[2]
        q, k, v = (t.view(B, T, self.h, self.d).transpose(1, 2) for t in self.a(x).chunk(3, -1))
        i = torch.arange(P, P + T, device=x.device)
        q, k = spin(q, i), spin(k, i)
        if mem is not None:
            k, v = torch.cat([mem[0], k], 2), torch.cat([mem[1], v], 2)
        j = torch.arange(P + T, device=x.device)
        gap = i[:, None] - j[None, :]
        see = (gap >= 0) & (gap <= self.W)
        s = (q @ k.transpose(2, 3)) / self.d ** 0.5
        s = s.masked_fill(~see, -torch.inf)
        y = (s.softmax(-1) @ v).transpose(1, 2).reshape(B, T, n)
        return self.z(y), (k, v)

"""Tied key/value attention: one small projection is both key and value.

All query heads read the same single head z = W_z x of width d (multi-query),
    keys    rope(rms(z))      rotated, normalised over the d channels
    values  z                 as it is
    scores  rope(rms(q)) . key * tau_h, tau_h = exp(log_tau[h]) learned,
            one at the start
The product of the two normalised vectors is divided by sqrt(d) before tau is
applied.

forward(x, past=None) -> (y, past)
    x      (B, L, dim), the L newest tokens
    past   (B, P, d), the z of all older tokens or None; the returned one has
           P + L rows.  Keys are rebuilt from z, so the cache is half as large
Token i of x sees the whole past and the tokens 0..i of x.
Rotary pairs are (0, 1), (2, 3), ... with angle pos * 10000^(-2j/d).
"""
import torch
import torch.nn as nn


def rms(t, eps=1e-6):
    return t * torch.rsqrt(t.pow(2).mean(dim=-1, keepdim=True) + eps)


def rope(t, pos):
    d = t.size(-1)
    freq = 10000.0 ** (-torch.arange(0, d, 2, dtype=torch.float32, device=t.device) / d)
    ang = pos[:, None].float() * freq
    c, s = ang.cos(), ang.sin()
    even, odd = t[..., 0::2], t[..., 1::2]
    return torch.stack((even * c - odd * s, even * s + odd * c), dim=-1).flatten(-2)


class TiedKV(nn.Module):
    def __init__(self, dim, heads, d):
        super().__init__()
        self.heads, self.d = heads, d
        self.wq = nn.Linear(dim, heads * d, bias=False)
        self.wz = nn.Linear(dim, d, bias=False)
        self.wo = nn.Linear(heads * d, dim, bias=False)
        self.log_tau = nn.Parameter(torch.zeros(heads))

    def forward(self, x, past=None):
        B, L, _ = x.shape
        z = self.wz(x)
        if past is not None:
            z = torch.cat([past, z], dim=1)
        total = z.size(1)
        pos = torch.arange(total, device=x.device)

        key = rope(rms(z), pos)                                   # (B, T, d)
        q = self.wq(x).view(B, L, self.heads, self.d).transpose(1, 2)
        q = rope(rms(q), pos[total - L:])                         # (B, H, L, d)

        s = torch.einsum("bhld,btd->bhlt", q, key) * self.d ** -0.5
        s = s * self.log_tau.exp().view(1, -1, 1, 1)
        later = pos[None, :] > pos[total - L:, None]
        s = s.masked_fill(later, float("-inf"))
        y = torch.einsum("bhlt,btd->blhd", s.softmax(-1), z)
        return self.wo(y.reshape(B, L, -1)), z

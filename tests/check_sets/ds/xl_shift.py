"""Self-attention with relative distances for an acoustic encoder (Dai et al. 2019)."""
import math

import torch
from torch import nn


def shift(bd):
    """(B, H, L, 2L-1) scores against distances  ->  (B, H, L, L) scores against keys.

    Column m of the input belongs to the distance i - j = L - 1 - m.  Entry
    [i, j] of the result is therefore column L - 1 - i + j of row i.
    """
    B, H, L, M = bd.shape
    bd = torch.cat([bd.new_zeros(B, H, L, 1), bd], dim=-1)
    bd = bd.view(B, H, M + 1, L)[:, :, 1:].reshape(B, H, L, M)
    return bd[..., :L]


class RelPosSelfAttention(nn.Module):
    """score[i, j] = ((q_i + u) . k_j + (q_i + v) . r_{i-j}) / sqrt(d)

    x    (B, L, D) frames
    pad  (B, L) bool, True where the frame is only padding (every utterance has
         at least one real frame); padded frames receive no weight
    out  (B, L, D)

    D = heads * d.  r is a linear map (no bias) of the sinusoid of the distance:
    sin(p * f), cos(p * f) interleaved, f_n = 10000 ** (-2n / D).
    Both directions are visible; the distance is signed.
    """

    def __init__(self, dim, heads):
        super().__init__()
        self.h, self.d = heads, dim // heads
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))
        self.r = nn.Linear(dim, dim, bias=False)
        self.o = nn.Linear(dim, dim)
        self.pos_u = nn.Parameter(torch.randn(heads, 1, self.d) * 0.1)
        self.pos_v = nn.Parameter(torch.randn(heads, 1, self.d) * 0.1)

    def distances(self, L, like):
        D = self.h * self.d
        p = torch.arange(L - 1, -L, -1, device=like.device, dtype=like.dtype)
        f = torch.exp(torch.arange(0, D, 2, device=like.device, dtype=like.dtype) * (-math.log(10000.0) / D))
        ang = p[:, None] * f
        return torch.stack([ang.sin(), ang.cos()], dim=-1).flatten(1)

    def heads(self, t):
        return t.unflatten(-1, (self.h, self.d)).transpose(-3, -2)

    def forward(self, x, pad):
        B, L, D = x.shape
        q, k, v = self.heads(self.q(x)), self.heads(self.k(x)), self.heads(self.v(x))
        r = self.heads(self.r(self.distances(L, x)))                 # (H, 2L-1, d)
        ac = (q + self.pos_u) @ k.mT
        bd = shift((q + self.pos_v) @ r.mT)
        s = (ac + bd) / self.d ** 0.5
        s = s.masked_fill(pad[:, None, None, :], float("-inf"))
        y = s.softmax(-1) @ v
        return self.o(y.transpose(1, 2).flatten(2))

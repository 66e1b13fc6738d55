import math

import torch
import torch.nn.functional as F
from torch import nn


class WinkelAufmerksamkeit(nn.Module):
    """Cosine attention with a learned temperature per head (as in Swin v2).

    Similarities are cosines times exp(log_t), where the factor is capped at 100.
    x [B, L, C]; pair_bias optional [heads, L, L]; pad optional [B, L] bool, True = filler.
    Rows of a sample which is all filler come out as the bias of the last layer.
    """

    def __init__(self, C, heads):
        super().__init__()
        self.heads = heads
        self.log_t = nn.Parameter(torch.full((heads, 1, 1), math.log(10.0)))
        self.inp = nn.Linear(C, 3 * C, bias=False)
        self.q_shift = nn.Parameter(torch.zeros(C))
        self.v_shift = nn.Parameter(torch.zeros(C))
        self.out = nn.Linear(C, C)

    def teilen(self, t):
        return t.unflatten(-1, (self.heads, -1)).movedim(-2, 1)

    def forward(self, x, pair_bias=None, pad=None):
        q, k, v = self.inp(x).chunk(3, dim=-1)
        q = self.teilen(q + self.q_shift)
        k = self.teilen(k)
        v = self.teilen(v + self.v_shift)
        s = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT
        s = s * self.log_t.clamp(max=math.log(100.0)).exp()
        if pair_bias is not None:
            s = s + pair_bias
        if pad is not None:
            filler = pad[:, None, None, :]
            s = s.masked_fill(filler, float("-inf"))
            dead = pad.all(-1)[:, None, None, None]
            s = s.masked_fill(dead, 0.0)
            p = s.softmax(-1).masked_fill(dead, 0.0)
        else:
            p = s.softmax(-1)
        y = p @ v
        return self.out(y.movedim(1, -2).flatten(-2))

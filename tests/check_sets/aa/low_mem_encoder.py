"""Attention in key blocks with a running maximum, for long documents.

Peak memory is O(L * block) instead of O(L^2).  Padding positions are given
as a boolean mask with True for padding; a row without any key gives zeros.
"""
import math

import torch
from torch import nn


def blockwise_attention(q, k, v, pad=None, block=4):
    """q [..., Lq, D], k/v [..., Lk, D], pad broadcastable to [..., Lk]"""
    q = q / math.sqrt(q.size(-1))
    lk = k.size(-2)
    running_max = q.new_full(q.shape[:-1], -math.inf)
    denom = q.new_zeros(q.shape[:-1])
    acc = q.new_zeros(*q.shape[:-1], v.size(-1))
    for start in range(0, lk, block):
        stop = min(start + block, lk)
        s = q @ k[..., start:stop, :].transpose(-1, -2)
        if pad is not None:
            s = s.masked_fill(pad[..., None, start:stop], -math.inf)
        new_max = torch.maximum(running_max, s.amax(-1))
        # rows that have met no key yet
        safe = new_max.masked_fill(new_max == -math.inf, 0.0)
        p = torch.exp(s - safe[..., None])
        shrink = torch.exp(running_max - safe)
        denom = denom * shrink + p.sum(-1)
        acc = acc * shrink[..., None] + p @ v[..., start:stop, :]
        running_max = new_max
    return acc / denom.clamp_min(torch.finfo(denom.dtype).tiny)[..., None]


class LongDocumentLayer(nn.Module):
    def __init__(self, dim=24, heads=3, block=4, ff=32):
        super().__init__()
        self.heads, self.block = heads, block
        self.ln_a, self.ln_f = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.q = nn.Linear(dim, dim, bias=False)
        self.k = nn.Linear(dim, dim, bias=False)
        self.v = nn.Linear(dim, dim, bias=False)
        self.o = nn.Linear(dim, dim)
        self.ff = nn.Sequential(nn.Linear(dim, ff), nn.SiLU(), nn.Linear(ff, dim))

    def forward(self, x, pad=None):
        """x [B, L, D], pad [B, L] True at padding"""
        b, l, d = x.shape
        y = self.ln_a(x)
        q, k, v = (f(y).unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for f in (self.q, self.k, self.v))
        y = blockwise_attention(q, k, v, None if pad is None else pad[:, None], self.block)
        x = x + self.o(y.transpose(1, 2).flatten(2))
        return x + self.ff(self.ln_f(x))

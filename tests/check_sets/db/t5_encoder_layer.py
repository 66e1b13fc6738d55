"""Encoder self-attention after T5, rewritten from memory.

Like T5 there is no 1/sqrt(d): the initialisation of `q` absorbs it. Positions
enter only by a learned bias per head and distance bucket.
"""
import math
import torch
from torch import nn


def bucket_of(delta, buckets=32, far=128):
    """delta = key position - query position (long). Half of the buckets per sign."""
    half = buckets // 2
    out = (delta > 0).long() * half
    n = delta.abs()
    exact = half // 2
    big = exact + (torch.log(n.clamp(min=1).float() / exact)
                   / math.log(far / exact) * (half - exact)).long()
    big = big.clamp(max=half - 1)
    return out + torch.where(n < exact, n, big)


class EncoderAttention(nn.Module):
    def __init__(self, d_model=32, d_kv=8, heads=3, buckets=16, far=40):
        super().__init__()
        self.h, self.d_kv, self.buckets, self.far = heads, d_kv, buckets, far
        inner = heads * d_kv
        self.q = nn.Linear(d_model, inner, bias=False)
        self.k = nn.Linear(d_model, inner, bias=False)
        self.v = nn.Linear(d_model, inner, bias=False)
        self.o = nn.Linear(inner, d_model, bias=False)
        nn.init.normal_(self.q.weight, std=(d_model * d_kv) ** -0.5)
        self.rel = nn.Embedding(buckets, heads)

    def forward(self, x, lengths=None):
        """x: (B, T, d_model); lengths: (B,) long, number of real tokens, each >= 1."""
        B, T, _ = x.shape
        split = lambda t: t.view(B, T, self.h, self.d_kv).transpose(1, 2)
        q, k, v = split(self.q(x)), split(self.k(x)), split(self.v(x))
        i = torch.arange(T, device=x.device)
        bias = self.rel(bucket_of(i[None, :] - i[:, None], self.buckets, self.far))
        scores = q @ k.mT + bias.permute(2, 0, 1)
        if lengths is not None:
            pad = i[None, :] >= lengths[:, None]
            scores = scores.masked_fill(pad[:, None, None, :], torch.finfo(scores.dtype).min)
        ctx = scores.softmax(-1) @ v
        return self.o(ctx.transpose(1, 2).reshape(B, T, -1))

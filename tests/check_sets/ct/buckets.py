"""T5-flavoured encoder attention with bucketed relative bias."""
import math

import torch
from torch import nn


def bucket(rel, n=16, far=64):
    """rel = key position - query position. Half of the buckets for each side,
    exact for small distances, logarithmic up to `far`."""
    n = n // 2
    side = (rel > 0).long() * n
    dist = rel.abs()
    exact = n // 2
    grow = torch.log(dist.clamp(min=1).float() / exact) / math.log(far / exact)
    coarse = (exact + (grow * (n - exact)).long()).clamp(max=n - 1)
    return side + torch.where(dist < exact, dist, coarse)


class BiasedSelfAttention(nn.Module):
    """
    x: (B, L, d_model); keep: (B, L) bool, True = real token. Encoder, so both
    directions are visible.

    As in T5 the products are not divided by sqrt(d_kv): the factor is folded
    into the starting values of `q` (standard deviation (d_model*d_kv)**-0.5).
    Inner width heads * d_kv may differ from d_model.
    """

    def __init__(self, d_model=24, heads=3, d_kv=10, n_buckets=16):
        super().__init__()
        self.heads, self.d_kv, self.nb = heads, d_kv, n_buckets
        inner = heads * d_kv
        self.q = nn.Linear(d_model, inner, bias=False)
        self.k = nn.Linear(d_model, inner, bias=False)
        self.v = nn.Linear(d_model, inner, bias=False)
        self.o = nn.Linear(inner, d_model, bias=False)
        self.table = nn.Embedding(n_buckets, heads)
        nn.init.normal_(self.q.weight, std=(d_model * d_kv) ** -0.5)
        nn.init.normal_(self.k.weight, std=d_model ** -0.5)
        nn.init.normal_(self.v.weight, std=d_model ** -0.5)

    def forward(self, x, keep=None):
        B, L, _ = x.shape
        split = lambda t: t.view(B, L, self.heads, self.d_kv).transpose(1, 2)
        q, k, v = split(self.q(x)), split(self.k(x)), split(self.v(x))
        pos = torch.arange(L, device=x.device)
        bias = self.table(bucket(pos[None, :] - pos[:, None], self.nb))  # (L, L, heads)
        scores = q @ k.transpose(-1, -2) + bias.permute(2, 0, 1).unsqueeze(0)
        if keep is not None:
            scores = scores.masked_fill(~keep[:, None, None, :], torch.finfo(scores.dtype).min)
        ctx = scores.softmax(-1) @ v
        return self.o(ctx.transpose(1, 2).reshape(B, L, -1))

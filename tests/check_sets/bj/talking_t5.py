"""Encoder layer: T5 relative buckets + talking heads.

As in T5 the scores are NOT divided by sqrt(d) (the query projection is
initialised with a smaller deviation instead).  Talking heads (Shazeer 2020)
mix the heads before and after the softmax; a mixed row need not sum to one.
"""
import math

import torch
import torch.nn as nn


def bucket(rel, n=16, far=64):
    """Bidirectional T5 buckets. rel = key position - query position."""
    n //= 2
    out = (rel > 0).long() * n
    rel = rel.abs()
    exact = n // 2
    big = exact + (
        torch.log(rel.clamp_min(1).float() / exact) / math.log(far / exact) * (n - exact)
    ).long()
    return out + torch.where(rel < exact, rel, big.clamp_max(n - 1))


class TalkingHeads(nn.Module):
    def __init__(self, d_model=32, heads=4, d_kv=8, buckets=16):
        super().__init__()
        self.heads, self.d_kv, self.n_buckets = heads, d_kv, buckets
        inner = heads * d_kv
        self.q = nn.Linear(d_model, inner, bias=False)
        self.k = nn.Linear(d_model, inner, bias=False)
        self.v = nn.Linear(d_model, inner, bias=False)
        self.o = nn.Linear(inner, d_model, bias=False)
        self.rel = nn.Embedding(buckets, heads)
        self.pre = nn.Parameter(torch.eye(heads) + 0.1 * torch.randn(heads, heads))
        self.post = nn.Parameter(torch.eye(heads) + 0.1 * torch.randn(heads, heads))
        nn.init.normal_(self.q.weight, std=(d_model * d_kv) ** -0.5)
        nn.init.normal_(self.k.weight, std=d_model**-0.5)
        self._bias_cache = (0, None)

    def position_bias(self, n):
        """[heads, n, n]; cached in eval mode only, because `rel` is trained."""
        if not self.training and self._bias_cache[0] == n:
            return self._bias_cache[1]
        p = torch.arange(n)
        b = self.rel(bucket(p[None] - p[:, None], self.n_buckets)).permute(2, 0, 1)
        if not self.training:
            self._bias_cache = (n, b.detach())
        return b

    def train(self, mode=True):
        self._bias_cache = (0, None)
        return super().train(mode)

    def forward(self, x, keep=None):
        """x [B, L, d_model]; keep bool [B, L], True = token is real."""
        b, n, _ = x.shape
        q, k, v = (f(x).view(b, n, self.heads, self.d_kv) for f in (self.q, self.k, self.v))
        s = torch.einsum("bihd,bjhd->bhij", q, k) + self.position_bias(n)
        s = torch.einsum("bhij,hg->bgij", s, self.pre)
        if keep is not None:
            s = s.masked_fill(~keep[:, None, None, :], torch.finfo(s.dtype).min)
        w = torch.softmax(s, dim=-1)
        w = torch.einsum("bgij,gh->bhij", w, self.post)
        y = torch.einsum("bhij,bjhd->bihd", w, v)
        return self.o(y.flatten(2))


class Layer(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.a, self.n1, self.n2 = TalkingHeads(d), nn.RMSNorm(d), nn.RMSNorm(d)
        self.wi, self.wo = nn.Linear(d, 2 * d, bias=False), nn.Linear(2 * d, d, bias=False)

    def forward(self, x, keep=None):
        x = x + self.a(self.n1(x), keep)
        return x + self.wo(torch.relu(self.wi(self.n2(x))))

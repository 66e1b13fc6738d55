"""Text-to-text model for change ringing: "call" in, rows of bells out.

Attention after T5. Things that differ from the transformer one may be used to:

* the scores are NOT divided by sqrt(d_kv); T5 puts that factor into the initial
  standard deviation of the query projection (see ``reset``);
* positions come only from a bucketed relative bias which the first layer owns and
  hands on to the later ones as ``bias``;
* ``key_keep`` is 1 for a bell that rings and 0 for a filler.
"""
import math

import torch
from torch import nn


def bucket_of(rel, two_sided, buckets=32, far=128):
    """rel = key position - query position."""
    base = torch.zeros_like(rel)
    if two_sided:
        buckets //= 2
        base = (rel > 0).long() * buckets
        dist = rel.abs()
    else:
        dist = (-rel).clamp(min=0)
    exact = buckets // 2
    big = exact + (
        torch.log(dist.float().clamp(min=1) / exact) / math.log(far / exact) * (buckets - exact)
    ).long()
    big = big.clamp(max=buckets - 1)
    return base + torch.where(dist < exact, dist, big)


class BelfryRelativeAttention(nn.Module):
    def __init__(self, d_model=64, d_kv=16, heads=4, decoder=False, owns_bias=True, buckets=32, far=128):
        super().__init__()
        self.heads, self.d_kv, self.decoder = heads, d_kv, decoder
        self.buckets, self.far = buckets, far
        inner = heads * d_kv
        self.q = nn.Linear(d_model, inner, bias=False)
        self.k = nn.Linear(d_model, inner, bias=False)
        self.v = nn.Linear(d_model, inner, bias=False)
        self.o = nn.Linear(inner, d_model, bias=False)
        self.rel = nn.Embedding(buckets, heads) if owns_bias else None
        self.reset()

    @torch.no_grad()
    def reset(self):
        d, k, h = self.q.in_features, self.d_kv, self.heads
        self.q.weight.normal_(0, (d * k) ** -0.5)
        self.k.weight.normal_(0, d ** -0.5)
        self.v.weight.normal_(0, d ** -0.5)
        self.o.weight.normal_(0, (h * k) ** -0.5)
        if self.rel is not None:
            self.rel.weight.normal_(0, d ** -0.5)

    def make_bias(self, lq, lk, device):
        qpos = torch.arange(lk - lq, lk, device=device)[:, None]
        kpos = torch.arange(lk, device=device)[None]
        b = bucket_of(kpos - qpos, not self.decoder, self.buckets, self.far)
        return self.rel(b).permute(2, 0, 1)[None]               # 1, heads, lq, lk

    def forward(self, x, key_keep=None, bias=None, past=None):
        """x B,T,C; past = (k, v) of the rows rung so far (decoder only)."""
        B, T, _ = x.shape

        def heads(t):
            return t.view(B, T, self.heads, self.d_kv).transpose(1, 2)

        q, k, v = heads(self.q(x)), heads(self.k(x)), heads(self.v(x))
        if past is not None:
            k = torch.cat([past[0], k], 2)
            v = torch.cat([past[1], v], 2)
        S = k.size(2)
        if bias is None:
            if self.rel is None:
                raise ValueError("this layer needs the bias of the first one")
            bias = self.make_bias(T, S, x.device)
        scores = q @ k.transpose(2, 3) + bias
        if self.decoder:
            ahead = torch.ones(T, S, dtype=torch.bool, device=x.device).triu(S - T + 1)
            scores = scores.masked_fill(ahead, -math.inf)
        if key_keep is not None:
            scores = scores.masked_fill(key_keep[:, None, None, :] == 0, -math.inf)
        p = torch.softmax(scores.float(), -1).type_as(scores)
        y = (p @ v).transpose(1, 2).reshape(B, T, -1)
        return self.o(y), bias, (k, v)


class RoundsEncoder(nn.Module):
    """Stack that shares the bias of its lowest layer."""

    def __init__(self, depth=3, d_model=64, bells=16):
        super().__init__()
        self.emb = nn.Embedding(bells, d_model)
        self.att = nn.ModuleList(
            BelfryRelativeAttention(d_model, owns_bias=i == 0) for i in range(depth)
        )
        self.ln = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(depth))

    def forward(self, row, keep=None):
        x, bias = self.emb(row), None
        for ln, att in zip(self.ln, self.att):
            y, bias, _ = att(ln(x), keep, bias)
            x = x + y
        return x

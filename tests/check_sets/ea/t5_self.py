"""T5 encoder self-attention with relative position buckets.

T5 does not divide by sqrt(d): the scale is folded into the initialisation (see q below).
The bias of a bucket is learned per head, added to the scores, and depends on
(key position - query position): half of the buckets for keys to the left (and the
own position), half for keys to the right; within a half, distances below
num_buckets/4 have their own bucket, larger ones share log-spaced buckets up to max_distance.

hidden: (batch, n, d_model)
keep:   (batch, n), 1 = token, 0 = padding (float or int)
returns (batch, n, d_model)
"""
import math

import torch
from torch import nn


def bucket(rel, num_buckets=32, max_distance=128):
    """rel = key position - query position (any shape, long)"""
    half = num_buckets // 2
    ret = (rel > 0).long() * half
    n = rel.abs()
    exact = half // 2
    large = exact + (torch.log(n.clamp(min=1).float() / exact) / math.log(max_distance / exact)
                     * (half - exact)).long()
    large = large.clamp(max=half - 1)
    return ret + torch.where(n < exact, n, large)


class T5SelfAttention(nn.Module):
    def __init__(self, d_model, d_kv, n_heads, num_buckets=32, max_distance=128):
        super().__init__()
        self.h, self.nb, self.md = n_heads, num_buckets, max_distance
        inner = d_kv * n_heads
        self.q = nn.Linear(d_model, inner, bias=False)
        self.k = nn.Linear(d_model, inner, bias=False)
        self.v = nn.Linear(d_model, inner, bias=False)
        self.o = nn.Linear(inner, d_model, bias=False)
        self.relative_attention_bias = nn.Embedding(num_buckets, n_heads)
        nn.init.normal_(self.q.weight, std=(d_model * d_kv) ** -0.5)

    def forward(self, hidden, keep):
        b, n, _ = hidden.shape
        split = lambda t: t.view(b, n, self.h, -1).transpose(1, 2)
        q, k, v = split(self.q(hidden)), split(self.k(hidden)), split(self.v(hidden))
        pos = torch.arange(n, device=hidden.device)
        rel = pos[None, :] - pos[:, None]
        bias = self.relative_attention_bias(bucket(rel, self.nb, self.md)).permute(2, 0, 1)[None]
        bias = bias + (1.0 - keep[:, None, None, :].to(q.dtype)) * torch.finfo(q.dtype).min
        p = (q @ k.transpose(-1, -2) + bias).softmax(-1)
        return self.o((p @ v).transpose(1, 2).reshape(b, n, -1))

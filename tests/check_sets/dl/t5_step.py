"""T5 decoder self-attention with relative position buckets, incremental.

As in T5, the logits are q.k + bias and there is NO 1/sqrt(d): the factor sits in the
initialisation of q.  Buckets (unidirectional): distance n = query - key >= 0; n < B/2 gets
bucket n, larger ones log-spaced up to max_distance, all beyond in the last bucket.
"""
import math

import torch
from torch import nn


def bucket(distance, num_buckets, max_distance):
    n = distance.clamp_min(0)
    exact = num_buckets // 2
    big = exact + (
        torch.log(n.float().clamp_min(1) / exact) / math.log(max_distance / exact) * (num_buckets - exact)
    ).long()
    big = big.clamp_max(num_buckets - 1)
    return torch.where(n < exact, n, big)


class T5SelfAttention(nn.Module):
    def __init__(self, d_model, d_kv, heads, num_buckets=8, max_distance=20):
        super().__init__()
        inner = heads * d_kv
        self.heads, self.nb, self.md = heads, num_buckets, max_distance
        self.q = nn.Linear(d_model, inner, bias=False)
        self.k = nn.Linear(d_model, inner, bias=False)
        self.v = nn.Linear(d_model, inner, bias=False)
        self.o = nn.Linear(inner, d_model, bias=False)
        nn.init.normal_(self.q.weight, std=(d_model * d_kv) ** -0.5)
        self.rel = nn.Embedding(num_buckets, heads)

    def split(self, x):
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)

    def forward(self, x, past_key_value=None):
        """x (B, T, d_model): new tokens.  past_key_value: (k, v), each (B, H, P, d_kv), or
        None.  Causal.  Returns (B, T, d_model), (k, v) of all P + T tokens."""
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        if past_key_value is not None:
            k = torch.cat([past_key_value[0], k], dim=2)
            v = torch.cat([past_key_value[1], v], dim=2)
        total, new = k.size(2), q.size(2)
        rows = torch.arange(total - new, total)[:, None]
        dist = rows - torch.arange(total)[None, :]
        bias = self.rel(bucket(dist, self.nb, self.md)).permute(2, 0, 1)
        bias = bias.masked_fill(dist < 0, float("-inf"))
        weights = torch.softmax(q @ k.transpose(2, 3) + bias, dim=-1)
        y = (weights @ v).transpose(1, 2).flatten(2)
        return self.o(y), (k, v)

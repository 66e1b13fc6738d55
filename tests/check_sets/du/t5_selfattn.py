"""T5 encoder self-attention, minimal re-implementation to load the original checkpoint.

Two things that surprise people:
  * T5 does NOT divide by sqrt(d_kv); the factor was folded into the initialisation
    of the query matrix.  Scores are plain q . k plus the relative bias.
  * the bias depends on a bucket of (memory_position - query_position); bidirectional, half of
    the buckets for each direction, log-spaced beyond max_exact.
"""
import math

import torch
import torch.nn as nn


def bucket(rel, num_buckets=32, max_distance=128):
    n = num_buckets // 2
    ret = (rel > 0).long() * n
    rel = rel.abs()
    max_exact = n // 2
    far = max_exact + (
        torch.log(rel.float().clamp(min=1) / max_exact)
        / math.log(max_distance / max_exact) * (n - max_exact)
    ).long()
    return ret + torch.where(rel < max_exact, rel, far.clamp(max=n - 1))


class T5SelfAttention(nn.Module):
    """hidden (batch, seq, d_model); attention_mask (batch, seq) with 1 = token, 0 = padding.

    d_kv need not be d_model / n_heads. Every sequence has at least one token.
    """

    def __init__(self, d_model=64, d_kv=16, n_heads=6, num_buckets=32):
        super().__init__()
        self.n_heads, self.d_kv, self.num_buckets = n_heads, d_kv, num_buckets
        inner = d_kv * n_heads
        self.q = nn.Linear(d_model, inner, bias=False)
        self.k = nn.Linear(d_model, inner, bias=False)
        self.v = nn.Linear(d_model, inner, bias=False)
        self.o = nn.Linear(inner, d_model, bias=False)
        self.relative_attention_bias = nn.Embedding(num_buckets, n_heads)

    def position_bias(self, n):
        pos = torch.arange(n, device=self.o.weight.device)
        ids = bucket(pos[None, :] - pos[:, None], self.num_buckets)
        return self.relative_attention_bias(ids).permute(2, 0, 1).unsqueeze(0)

    def forward(self, hidden, attention_mask=None):
        b, n, _ = hidden.shape
        q, k, v = (m(hidden).view(b, n, self.n_heads, self.d_kv).transpose(1, 2)
                   for m in (self.q, self.k, self.v))
        scores = torch.matmul(q, k.transpose(3, 2)) + self.position_bias(n)
        if attention_mask is not None:
            extended = (1.0 - attention_mask[:, None, None, :].to(scores.dtype))
            scores = scores + extended * torch.finfo(scores.dtype).min
        weights = nn.functional.softmax(scores.float(), dim=-1).type_as(scores)
        out = torch.matmul(weights, v).transpose(1, 2).contiguous().view(b, n, -1)
        return self.o(out)

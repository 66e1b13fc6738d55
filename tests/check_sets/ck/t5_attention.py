"""
T5 encoder self-attention, from the Mesh-TensorFlow code.

NB: T5 does not divide the logits by sqrt(d); the factor sits in the
initialisation of the query weights.
"""
import math

import torch
import torch.nn as nn


def bucket(rel, num_buckets=32, max_distance=128):
    """bidirectional buckets: half for the past, half for the future; exact up to a
    quarter of them, logarithmic from there to max_distance. rel = key - query"""
    num_buckets //= 2
    out = (rel > 0).long() * num_buckets
    n = rel.abs()
    exact = num_buckets // 2
    big = exact + (
        torch.log(n.clamp(min=1).float() / exact) / math.log(max_distance / exact) * (num_buckets - exact)
    ).long()
    big = big.clamp(max=num_buckets - 1)
    return out + torch.where(n < exact, n, big)


class T5SelfAttention(nn.Module):
    def __init__(self, d_model=64, d_kv=16, n_heads=4, num_buckets=32, dropout=0.1):
        super().__init__()
        self.n_heads, self.d_kv, self.num_buckets = n_heads, d_kv, num_buckets
        inner = n_heads * d_kv
        self.q = nn.Linear(d_model, inner, bias=False)
        self.k = nn.Linear(d_model, inner, bias=False)
        self.v = nn.Linear(d_model, inner, bias=False)
        self.o = nn.Linear(inner, d_model, bias=False)
        self.relative_attention_bias = nn.Embedding(num_buckets, n_heads)
        self.dropout = nn.Dropout(dropout)
        nn.init.normal_(self.q.weight, std=(d_model * d_kv) ** -0.5)
        for lin in (self.k, self.v):
            nn.init.normal_(lin.weight, std=d_model ** -0.5)
        nn.init.normal_(self.relative_attention_bias.weight, std=d_model ** -0.5)

    def compute_bias(self, n, device):
        pos = torch.arange(n, device=device)
        rel = pos[None, :] - pos[:, None]
        return self.relative_attention_bias(bucket(rel, self.num_buckets)).permute(2, 0, 1)[None]

    def forward(self, hidden, attention_mask=None):
        """hidden (B, L, d_model); attention_mask (B, L), 1 for tokens and 0 for padding"""
        B, L, _ = hidden.shape

        def shape(t):
            return t.view(B, L, self.n_heads, self.d_kv).transpose(1, 2)

        q, k, v = shape(self.q(hidden)), shape(self.k(hidden)), shape(self.v(hidden))
        scores = torch.matmul(q, k.transpose(3, 2))
        scores = scores + self.compute_bias(L, hidden.device)
        if attention_mask is not None:
            ext = (1.0 - attention_mask[:, None, None, :].to(scores.dtype)) * torch.finfo(scores.dtype).min
            scores = scores + ext
        weights = self.dropout(nn.functional.softmax(scores.float(), dim=-1).type_as(scores))
        out = torch.matmul(weights, v).transpose(1, 2).contiguous().view(B, L, -1)
        return self.o(out)

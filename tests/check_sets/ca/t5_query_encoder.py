"""Encoder self-attention of the T5 query rewriter (search team).

Follows the T5 checkpoints: no bias terms, no 1/sqrt(d) factor on the logits (it is
folded into the initialisation of q), and a learned bias per head that depends on the
bucketed distance key - query.  Half of the buckets are for keys to the right.
"""
import math

import torch
import torch.nn.functional as F
from torch import nn


def bucket(rel, num_buckets=32, max_distance=128):
    n = num_buckets // 2
    out = (rel > 0).long() * n
    dist = rel.abs()
    exact = n // 2
    far = exact + (
        torch.log(dist.float().clamp(min=1) / exact) / math.log(max_distance / exact) * (n - exact)
    ).long()
    far = far.clamp(max=n - 1)
    return out + torch.where(dist < exact, dist, far)


class RMSNorm(nn.Module):
    def __init__(self, d, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))
        self.eps = eps

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)


class T5SelfAttentionLayer(nn.Module):
    def __init__(self, d_model=48, d_kv=8, num_heads=6, num_buckets=32, max_distance=128,
                 dropout=0.1):
        super().__init__()
        inner = d_kv * num_heads
        self.h, self.d_kv = num_heads, d_kv
        self.num_buckets, self.max_distance = num_buckets, max_distance
        self.layer_norm = RMSNorm(d_model)
        self.q = nn.Linear(d_model, inner, bias=False)
        self.k = nn.Linear(d_model, inner, bias=False)
        self.v = nn.Linear(d_model, inner, bias=False)
        self.o = nn.Linear(inner, d_model, bias=False)
        self.relative_attention_bias = nn.Embedding(num_buckets, num_heads)
        self.drop = nn.Dropout(dropout)

    def position_bias(self, L, device):
        pos = torch.arange(L, device=device)
        rel = pos[None, :] - pos[:, None]           # memory - query
        idx = bucket(rel, self.num_buckets, self.max_distance)
        return self.relative_attention_bias(idx).permute(2, 0, 1).unsqueeze(0)  # 1 h L L

    def forward(self, hidden, attention_mask=None):
        """attention_mask: (batch, L) of ones (token) and zeros (pad)."""
        b, L, _ = hidden.shape
        x = self.layer_norm(hidden)

        def heads(t):
            return t.view(b, L, self.h, self.d_kv).transpose(1, 2)

        q, k, v = heads(self.q(x)), heads(self.k(x)), heads(self.v(x))
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k)
        bias = self.position_bias(L, hidden.device)
        if attention_mask is not None:
            neg = (1.0 - attention_mask[:, None, None, :].to(bias.dtype)) * torch.finfo(bias.dtype).min
            bias = bias + neg
        scores = scores + bias
        weights = F.softmax(scores.float(), dim=-1).type_as(scores)
        weights = self.drop(weights)
        ctx = torch.matmul(weights, v).transpose(1, 2).reshape(b, L, -1)
        return hidden + self.drop(self.o(ctx))

import math
from typing import Optional

import torch
from torch import nn


class T5Norm(nn.Module):
    def __init__(self, d, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))
        self.eps = eps

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + self.eps).to(x.dtype)


def relative_bucket(rel, bidirectional, num_buckets=32, max_distance=128):
    """rel = key position - query position"""
    ret = torch.zeros_like(rel)
    if bidirectional:
        num_buckets //= 2
        ret = ret + (rel > 0).long() * num_buckets
        n = rel.abs()
    else:
        n = (-rel).clamp(min=0)
    max_exact = num_buckets // 2
    large = max_exact + (
        torch.log(n.float().clamp(min=1) / max_exact) / math.log(max_distance / max_exact) * (num_buckets - max_exact)
    ).long()
    large = large.clamp(max=num_buckets - 1)
    return ret + torch.where(n < max_exact, n, large)


class CodeT5Attention(nn.Module):
    """T5 attention for the code summarisation model.

    As in the Mesh-TF original there is no 1/sqrt(d): it is folded into the
    initialisation of q (std = (d_model * d_kv) ** -0.5). Position enters only
    through the bucketed bias.
    """

    def __init__(self, d_model=64, d_kv=16, heads=4, causal=False, buckets=32):
        super().__init__()
        self.h, self.d = heads, d_kv
        self.causal, self.buckets = causal, buckets
        inner = heads * d_kv
        self.norm = T5Norm(d_model)
        self.q = nn.Linear(d_model, inner, bias=False)
        self.k = nn.Linear(d_model, inner, bias=False)
        self.v = nn.Linear(d_model, inner, bias=False)
        self.o = nn.Linear(inner, d_model, bias=False)
        self.rel = nn.Embedding(buckets, heads)
        nn.init.normal_(self.q.weight, std=(d_model * d_kv) ** -0.5)
        nn.init.normal_(self.k.weight, std=d_model ** -0.5)
        nn.init.normal_(self.v.weight, std=d_model ** -0.5)
        nn.init.normal_(self.o.weight, std=inner ** -0.5)

    def position_bias(self, lq, lk, device):
        ctx = torch.arange(lq, device=device)[:, None] + (lk - lq)
        mem = torch.arange(lk, device=device)[None, :]
        b = relative_bucket(mem - ctx, not self.causal, self.buckets)
        bias = self.rel(b).permute(2, 0, 1).unsqueeze(0)
        if self.causal:
            bias = bias.masked_fill(mem > ctx, torch.finfo(bias.dtype).min)
        return bias

    def forward(self, x, attention_mask: Optional[torch.Tensor] = None):
        B, L, _ = x.shape
        y = self.norm(x)
        q, k, v = (f(y).view(B, L, self.h, self.d).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = torch.matmul(q, k.transpose(3, 2))
        scores = scores + self.position_bias(L, L, x.device)
        if attention_mask is not None:  # 1 keep, 0 pad
            scores = scores.masked_fill(attention_mask[:, None, None, :] == 0, torch.finfo(scores.dtype).min)
        p = scores.float().softmax(-1).type_as(scores)
        y = torch.matmul(p, v).transpose(1, 2).contiguous().view(B, L, -1)
        return x + self.o(y)

"""T5 encoder self-attention. T5 leaves out 1/sqrt(d); it is folded into the init of q."""
import math

import torch
import torch.nn as nn


def bucket(rel, n_buckets, max_distance):
    """rel = key position - query position, both directions."""
    half = n_buckets // 2
    out = (rel > 0).long() * half
    rel = rel.abs()
    exact = half // 2
    far = exact + (torch.log(rel.clamp(min=1).float() / exact) / math.log(max_distance / exact)
                   * (half - exact)).long()
    far = far.clamp(max=half - 1)
    return out + torch.where(rel < exact, rel, far)


class T5SelfAttention(nn.Module):
    """hidden (B, L, d_model); attention_mask (B, L) with 1 = token, 0 = padding."""

    def __init__(self, d_model=24, d_kv=8, num_heads=3, n_buckets=16, max_distance=32, dropout=0.1):
        super().__init__()
        self.h, self.d = num_heads, d_kv
        inner = num_heads * d_kv
        self.n_buckets, self.max_distance = n_buckets, max_distance
        self.q = nn.Linear(d_model, inner, bias=False)
        self.k = nn.Linear(d_model, inner, bias=False)
        self.v = nn.Linear(d_model, inner, bias=False)
        self.o = nn.Linear(inner, d_model, bias=False)
        self.relative_attention_bias = nn.Embedding(n_buckets, num_heads)
        self.dropout = dropout
        nn.init.normal_(self.q.weight, std=(d_model * d_kv) ** -0.5)   # the missing scale lives here
        nn.init.normal_(self.k.weight, std=d_model ** -0.5)
        nn.init.normal_(self.v.weight, std=d_model ** -0.5)

    def position_bias(self, L, device):
        pos = torch.arange(L, device=device)
        rel = pos[None, :] - pos[:, None]
        b = self.relative_attention_bias(bucket(rel, self.n_buckets, self.max_distance))
        return b.permute(2, 0, 1).unsqueeze(0)

    def forward(self, hidden, attention_mask):
        B, L, _ = hidden.shape
        q, k, v = (f(hidden).view(B, L, self.h, self.d).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = torch.matmul(q, k.transpose(3, 2))
        scores = scores + self.position_bias(L, hidden.device)
        extended = (1.0 - attention_mask[:, None, None, :].to(scores.dtype)) * torch.finfo(scores.dtype).min
        weights = nn.functional.softmax((scores + extended).float(), dim=-1).type_as(scores)
        weights = nn.functional.dropout(weights, p=self.dropout, training=self.training)
        out = torch.matmul(weights, v).transpose(1, 2).contiguous().view(B, L, self.h * self.d)
        return self.o(out)

"""T5 encoder self-attention, pre-norm residual included (T5LayerSelfAttention).

As in the original Mesh-TF code the logits are *not* divided by sqrt(d_kv):
the factor is folded in the initialisation of `q`. Positions enter only through
a learned bias per head, looked up by a bucketed relative distance
(key - query): half of the buckets for each direction, exact up to
num_buckets/4, logarithmic up to max_distance.
"""
import math
import torch
from torch import nn


class T5LayerNorm(nn.Module):
    def __init__(self, n, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n))
        self.eps = eps

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)


def relative_bucket(rel, num_buckets=32, max_distance=128):
    half = num_buckets // 2
    out = (rel > 0).long() * half
    n = rel.abs()
    exact = half // 2
    log = exact + (
        torch.log(n.clamp(min=1).float() / exact) / math.log(max_distance / exact) * (half - exact)
    ).long()
    log = log.clamp(max=half - 1)
    return out + torch.where(n < exact, n, log)


class T5SelfAttentionLayer(nn.Module):
    def __init__(self, d_model=32, d_kv=12, num_heads=3, num_buckets=8, max_distance=20,
                 dropout=0.1):
        super().__init__()
        inner = num_heads * d_kv
        self.num_heads, self.d_kv = num_heads, d_kv
        self.num_buckets, self.max_distance = num_buckets, max_distance
        self.q = nn.Linear(d_model, inner, bias=False)
        self.k = nn.Linear(d_model, inner, bias=False)
        self.v = nn.Linear(d_model, inner, bias=False)
        self.o = nn.Linear(inner, d_model, bias=False)
        nn.init.normal_(self.q.weight, std=(d_model * d_kv) ** -0.5)
        self.relative_attention_bias = nn.Embedding(num_buckets, num_heads)
        self.layer_norm = T5LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def compute_bias(self, n):
        ctx = torch.arange(n)[:, None]
        mem = torch.arange(n)[None, :]
        b = relative_bucket(mem - ctx, self.num_buckets, self.max_distance)
        return self.relative_attention_bias(b).permute(2, 0, 1).unsqueeze(0)  # 1 h n n

    def forward(self, hidden_states, attention_mask=None, position_bias=None):
        """attention_mask: [B, n], 1 for tokens and 0 for padding."""
        B, n, _ = hidden_states.shape
        x = self.layer_norm(hidden_states)
        shape = lambda t: t.view(B, n, self.num_heads, self.d_kv).transpose(1, 2)
        q, k, v = shape(self.q(x)), shape(self.k(x)), shape(self.v(x))

        scores = q @ k.transpose(-1, -2)
        if position_bias is None:
            position_bias = self.compute_bias(n).to(scores.device)
            if attention_mask is not None:
                keep = attention_mask[:, None, None, :].bool()
                position_bias = position_bias.masked_fill(~keep, torch.finfo(scores.dtype).min)
        scores = scores + position_bias
        weights = torch.softmax(scores.float(), dim=-1).type_as(scores)
        weights = self.dropout(weights)
        y = (weights @ v).transpose(1, 2).reshape(B, n, -1)
        return hidden_states + self.dropout(self.o(y)), position_bias

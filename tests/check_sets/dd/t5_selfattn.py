"""T5 encoder self-attention.

As in the paper, the logits are *not* divided by sqrt(d_kv): the factor is folded into the
initialisation of the query matrix.  Position enters only through a bucketed relative bias.
"""
import math
import torch
import torch.nn as nn


def bucket(rel, num=16, max_distance=64):
    """rel = key position - query position; half of the buckets are for each direction."""
    num //= 2
    out = (rel > 0).long() * num
    n = rel.abs()
    exact = num // 2
    far = exact + (torch.log(n.float().clamp(min=1) / exact) / math.log(max_distance / exact) * (num - exact)).long()
    far = far.clamp(max=num - 1)
    return out + torch.where(n < exact, n, far)


class T5SelfAttention(nn.Module):
    def __init__(self, d_model=40, d_kv=12, num_heads=5, buckets=16):
        super().__init__()
        self.h, self.d, self.buckets = num_heads, d_kv, buckets
        inner = num_heads * d_kv
        self.q = nn.Linear(d_model, inner, bias=False)
        self.k = nn.Linear(d_model, inner, bias=False)
        self.v = nn.Linear(d_model, inner, bias=False)
        self.o = nn.Linear(inner, d_model, bias=False)
        self.rel = nn.Embedding(buckets, num_heads)
        nn.init.normal_(self.q.weight, std=(d_model * d_kv) ** -0.5)
        nn.init.normal_(self.k.weight, std=d_model ** -0.5)
        nn.init.normal_(self.v.weight, std=d_model ** -0.5)

    def forward(self, hidden, attention_mask=None):
        """hidden (B, L, d_model); attention_mask (B, L) with 1 = token, 0 = padding."""
        B, L, _ = hidden.shape
        q, k, v = (p(hidden).view(B, L, self.h, self.d).transpose(1, 2) for p in (self.q, self.k, self.v))
        pos = torch.arange(L, device=hidden.device)
        bias = self.rel(bucket(pos[None, :] - pos[:, None], self.buckets)).permute(2, 0, 1)
        logits = q @ k.transpose(-1, -2) + bias
        if attention_mask is not None:
            logits = logits.masked_fill(attention_mask[:, None, None, :] == 0, torch.finfo(logits.dtype).min)
        w = torch.softmax(logits.float(), dim=-1).type_as(logits)
        return self.o((w @ v).transpose(1, 2).reshape(B, L, self.h * self.d))

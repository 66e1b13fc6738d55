import math

import torch
from torch import nn


class T5SelfAttention(nn.Module):
    """Encoder self-attention of T5 with its layer norm and residual.  hidden_states (B, L, d_model), mask (B, L) 1/0.

    As in T5 the scores are NOT divided by sqrt(d_kv): the factor lives in the initialisation of ``q``.  The inner
    size num_heads * d_kv need not be d_model.
    """

    def __init__(self, d_model=16, d_kv=6, num_heads=2, num_buckets=8, max_distance=16):
        super().__init__()
        self.d_kv, self.num_heads, self.num_buckets, self.max_distance = d_kv, num_heads, num_buckets, max_distance
        inner = d_kv * num_heads
        self.norm = nn.Parameter(torch.ones(d_model))
        self.q, self.k, self.v = (nn.Linear(d_model, inner, bias=False) for _ in range(3))
        self.o = nn.Linear(inner, d_model, bias=False)
        nn.init.normal_(self.q.weight, std=(d_model * d_kv) ** -0.5)
        self.relative_attention_bias = nn.Embedding(num_buckets, num_heads)

    def buckets(self, n):
        rel = torch.arange(n)[None, :] - torch.arange(n)[:, None]
        half = self.num_buckets // 2
        exact = half // 2
        away = rel.abs()
        far = exact + (
            torch.log(away.clamp(min=1) / exact) / math.log(self.max_distance / exact) * (half - exact)
        ).long()
        return (rel > 0) * half + torch.where(away < exact, away, far.clamp(max=half - 1))

    def forward(self, hidden_states, mask=None):
        B, L, _ = hidden_states.shape
        x = hidden_states * torch.rsqrt(hidden_states.pow(2).mean(-1, keepdim=True) + 1e-6) * self.norm
        q, k, v = (f(x).view(B, L, self.num_heads, self.d_kv).transpose(1, 2) for f in (self.q, self.k, self.v))
        bias = self.relative_attention_bias(self.buckets(L).to(x.device)).permute(2, 0, 1)[None]
        if mask is not None:
            bias = bias.masked_fill(mask[:, None, None, :] == 0, torch.finfo(x.dtype).min)
        w = torch.softmax((q @ k.transpose(2, 3) + bias).float(), dim=-1).type_as(x)
        return hidden_states + self.o((w @ v).transpose(1, 2).reshape(B, L, -1))

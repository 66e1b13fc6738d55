"""T5 encoder self-attention (re-implementation, small).

Like in T5 the scores are not divided by sqrt(d_kv): the factor is folded into the initialisation of
the q weights. Positions enter only through the bucketed relative bias.
"""
import math

import torch
from torch import nn


class T5Attention(nn.Module):
    def __init__(self, d_model=40, d_kv=8, num_heads=4, num_buckets=16, max_distance=64, dropout_rate=0.1):
        super().__init__()
        self.d_kv, self.n_heads = d_kv, num_heads
        self.num_buckets, self.max_distance = num_buckets, max_distance
        inner = d_kv * num_heads
        self.q = nn.Linear(d_model, inner, bias=False)
        self.k = nn.Linear(d_model, inner, bias=False)
        self.v = nn.Linear(d_model, inner, bias=False)
        self.o = nn.Linear(inner, d_model, bias=False)
        self.relative_attention_bias = nn.Embedding(num_buckets, num_heads)
        self.dropout = nn.Dropout(dropout_rate)
        nn.init.normal_(self.q.weight, std=(d_model * d_kv) ** -0.5)
        nn.init.normal_(self.k.weight, std=d_model ** -0.5)
        nn.init.normal_(self.v.weight, std=d_model ** -0.5)
        nn.init.normal_(self.o.weight, std=inner ** -0.5)

    def _bucket(self, relative_position):
        n = self.num_buckets // 2
        buckets = (relative_position > 0).long() * n
        relative_position = relative_position.abs()
        max_exact = n // 2
        is_small = relative_position < max_exact
        large = max_exact + (
            torch.log(relative_position.float().clamp(min=1) / max_exact)
            / math.log(self.max_distance / max_exact) * (n - max_exact)
        ).long()
        large = large.clamp(max=n - 1)
        return buckets + torch.where(is_small, relative_position, large)

    def compute_bias(self, q_len, k_len, device):
        context = torch.arange(q_len, device=device)[:, None]
        memory = torch.arange(k_len, device=device)[None, :]
        values = self.relative_attention_bias(self._bucket(memory - context))
        return values.permute(2, 0, 1).unsqueeze(0)

    def forward(self, hidden_states, attention_mask=None):
        """attention_mask: (batch, seq) with 1 for tokens to attend to and 0 for padding."""
        bs, n, _ = hidden_states.shape

        def shape(x):
            return x.view(bs, n, self.n_heads, self.d_kv).transpose(1, 2)

        q, k, v = (shape(f(hidden_states)) for f in (self.q, self.k, self.v))
        scores = torch.matmul(q, k.transpose(3, 2))
        scores = scores + self.compute_bias(n, n, scores.device)
        if attention_mask is not None:
            blocked = attention_mask[:, None, None, :] == 0
            scores = scores.masked_fill(blocked, torch.finfo(scores.dtype).min)
        weights = nn.functional.softmax(scores.float(), dim=-1).type_as(scores)
        weights = self.dropout(weights)
        out = torch.matmul(weights, v).transpose(1, 2).contiguous().view(bs, n, self.n_heads * self.d_kv)
        return self.o(out)

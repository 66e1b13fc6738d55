"""T5 style attention: bucketed relative position bias, no 1/sqrt(d) (it is
folded in the initialisation of the query projection, as in the T5 paper)."""
import math

import torch
from torch import nn


class T5SelfAttention(nn.Module):
    def __init__(self, d_model=64, d_kv=16, num_heads=4, num_buckets=32, max_distance=128,
                 is_decoder=False, dropout=0.1):
        super().__init__()
        self.num_heads, self.d_kv = num_heads, d_kv
        self.num_buckets, self.max_distance = num_buckets, max_distance
        self.is_decoder = is_decoder
        self.dropout = dropout
        inner = num_heads * d_kv
        self.q = nn.Linear(d_model, inner, bias=False)
        self.k = nn.Linear(d_model, inner, bias=False)
        self.v = nn.Linear(d_model, inner, bias=False)
        self.o = nn.Linear(inner, d_model, bias=False)
        self.relative_attention_bias = nn.Embedding(num_buckets, num_heads)
        nn.init.normal_(self.q.weight, std=(d_model * d_kv) ** -0.5)
        nn.init.normal_(self.k.weight, std=d_model ** -0.5)

    def bucket(self, relative_position):
        """relative_position = key position - query position."""
        n_buckets = self.num_buckets
        ret = torch.zeros_like(relative_position)
        if not self.is_decoder:
            n_buckets //= 2
            ret = ret + (relative_position > 0).long() * n_buckets
            n = relative_position.abs()
        else:
            n = (-relative_position).clamp(min=0)
        max_exact = n_buckets // 2
        is_small = n < max_exact
        large = max_exact + (
            torch.log(n.float().clamp(min=1) / max_exact)
            / math.log(self.max_distance / max_exact) * (n_buckets - max_exact)
        ).long()
        large = large.clamp(max=n_buckets - 1)
        return ret + torch.where(is_small, n, large)

    def forward(self, x, attention_mask=None):
        """x (batch, seq, d_model); attention_mask (batch, seq) with 1 = token, 0 = pad."""
        b, n, _ = x.shape
        split = lambda t: t.view(b, n, self.num_heads, self.d_kv).transpose(1, 2)
        q, k, v = split(self.q(x)), split(self.k(x)), split(self.v(x))

        pos = torch.arange(n, device=x.device)
        rel = pos[None, :] - pos[:, None]
        bias = self.relative_attention_bias(self.bucket(rel)).permute(2, 0, 1).unsqueeze(0)
        scores = q @ k.transpose(3, 2) + bias

        lowest = torch.finfo(scores.dtype).min
        if attention_mask is not None:
            scores = scores.masked_fill(attention_mask[:, None, None, :] == 0, lowest)
        if self.is_decoder:
            scores = scores.masked_fill(rel > 0, lowest)
        probs = scores.float().softmax(dim=-1).type_as(scores)
        probs = nn.functional.dropout(probs, p=self.dropout, training=self.training)
        out = (probs @ v).transpose(1, 2).reshape(b, n, -1)
        return self.o(out)

import math

import torch
from torch import nn


def build_alibi_bias(n_heads, seq_len, alibi_bias_max=8):
    """-slope * (i - j) for the key j of the query i: the farther a key lies back, the less it weighs."""
    i = torch.arange(seq_len, dtype=torch.float64)
    distance = i[:, None] - i[None, :]
    m = torch.arange(1, n_heads + 1, dtype=torch.float64) * (alibi_bias_max / n_heads)
    slopes = 1.0 / 2**m
    return slopes[:, None, None] * distance


class MPTAttention(nn.Module):
    """Causal self-attention with ALiBi, x (B, S, d_model)."""

    def __init__(self, d_model=32, n_heads=4):
        super().__init__()
        self.n_heads = n_heads
        self.softmax_scale = 1 / math.sqrt(d_model / n_heads)
        self.Wqkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def forward(self, hidden_states):
        b, s, d = hidden_states.shape
        query, key, value = self.Wqkv(hidden_states).chunk(3, dim=2)
        query = query.reshape(b, s, self.n_heads, -1).transpose(1, 2)
        key = key.reshape(b, s, self.n_heads, -1).transpose(1, 2)
        value = value.reshape(b, s, self.n_heads, -1).transpose(1, 2)
        scores = torch.matmul(query, key.transpose(-1, -2)) * self.softmax_scale
        scores = scores + build_alibi_bias(self.n_heads, s).to(scores.dtype)
        future = torch.ones(s, s, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(future, torch.finfo(scores.dtype).min)
        context = torch.matmul(scores.softmax(dim=-1), value)
        return self.out_proj(context.transpose(1, 2).reshape(b, s, d))

"""Building blocks for the translation model."""
import math

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    """mask: bool, True where a query may attend to a key; broadcastable to (batch, heads, q_len, k_len)."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        assert d_model % n_heads == 0
        self.n_heads = n_heads
        self.d_head = d_model // n_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def _split(self, x):
        return x.view(x.size(0), -1, self.n_heads, self.d_head).transpose(1, 2)

    def forward(self, query, key, value, mask=None):
        q, k, v = self._split(self.w_q(query)), self._split(self.w_k(key)), self._split(self.w_v(value))
        energy = q @ k.transpose(-2, -1) / math.sqrt(self.d_head)
        if mask is not None:
            energy = energy.masked_fill(~mask, torch.finfo(energy.dtype).min)
        p = energy.softmax(-1)
        if mask is not None:
            p = p.masked_fill(~mask, 0.0)
        x = (p @ v).transpose(1, 2).reshape(query.size(0), -1, self.n_heads * self.d_head)
        return self.w_o(x)

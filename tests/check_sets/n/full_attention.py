import math

import torch
import torch.nn as nn


class TriangularCausalMask:
    def __init__(self, B, L):
        self._mask = torch.triu(torch.ones([B, 1, L, L], dtype=torch.bool), diagonal=1)

    @property
    def mask(self):
        return self._mask


class FullAttention(nn.Module):
    def __init__(self, mask_flag=True, scale=None, attention_dropout=0.1, output_attention=False):
        super().__init__()
        self.scale = scale
        self.mask_flag = mask_flag
        self.output_attention = output_attention
        self.dropout = nn.Dropout(attention_dropout)

    def forward(self, queries, keys, values):
        B, L, H, E = queries.shape
        scale = self.scale or 1. / math.sqrt(E)
        scores = torch.einsum("blhe,bshe->bhls", queries, keys)
        if self.mask_flag:
            scores = scores.masked_fill(TriangularCausalMask(B, L).mask, -float("inf"))
        A = self.dropout(torch.softmax(scale * scores, dim=-1))
        V = torch.einsum("bhls,bshd->blhd", A, values)
        return (V.contiguous(), A) if self.output_attention else (V.contiguous(), None)


class AttentionLayer(nn.Module):
    """Forecasting encoder layer: queries, keys and values (B, L, d_model)."""

    def __init__(self, d_model, n_heads, attention=None):
        super().__init__()
        d = d_model // n_heads
        self.inner_attention = attention or FullAttention(mask_flag=True)
        self.query_projection = nn.Linear(d_model, d * n_heads)
        self.key_projection = nn.Linear(d_model, d * n_heads)
        self.value_projection = nn.Linear(d_model, d * n_heads)
        self.out_projection = nn.Linear(d * n_heads, d_model)
        self.n_heads = n_heads

    def forward(self, queries, keys, values):
        B, L, _ = queries.shape
        _, S, _ = keys.shape
        H = self.n_heads
        queries = self.query_projection(queries).view(B, L, H, -1)
        keys = self.key_projection(keys).view(B, S, H, -1)
        values = self.value_projection(values).view(B, S, H, -1)
        out, attn = self.inner_attention(queries, keys, values)
        return self.out_projection(out.view(B, L, -1)), attn

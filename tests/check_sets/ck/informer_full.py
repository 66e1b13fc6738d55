"""Informer2020-like attention layers: FullAttention and the projecting AttentionLayer around it."""
from math import sqrt

import torch
import torch.nn as nn
import torch.nn.functional as F


class FullAttention(nn.Module):
    """Plain softmax attention of the Informer baselines, usable with and without mask_flag (causal)."""

    def __init__(self, mask_flag=False, scale=None, attention_dropout=0.1, output_attention=False):
        super().__init__()
        self.scale = scale
        self.mask_flag = mask_flag
        self.output_attention = output_attention
        self.p = attention_dropout

    def forward(self, queries, keys, values, valid=None):
        # queries (B, L, H, E), keys (B, S, H, E), values (B, S, H, D), valid (B, S)
        B, L, H, E = queries.shape
        S = keys.shape[1]
        scale = self.scale or 1.0 / sqrt(E)
        scores = torch.einsum("blhe,bshe->bhls", queries, keys)
        if self.mask_flag:
            later = torch.triu(torch.ones(L, S, dtype=torch.bool, device=queries.device), diagonal=1)
            scores = scores.masked_fill(later, float("-inf"))
        A = torch.softmax(scale * scores, dim=-1)
        if valid is not None:
            A = A * valid[:, None, None, :].to(A.dtype)
        V = torch.einsum("bhls,bshd->blhd", F.dropout(A, self.p), values)
        return V.contiguous(), (A if self.output_attention else None)


class AttentionLayer(nn.Module):
    """
    queries (B, L, d_model), keys and values (B, S, d_model)
    valid   (B, S): True for the time steps that were observed; the others take no part in the average
    """

    def __init__(self, attention=None, d_model=32, n_heads=4, d_keys=None, d_values=None):
        super().__init__()
        d_keys = d_keys or (d_model // n_heads)
        d_values = d_values or (d_model // n_heads)
        self.inner_attention = attention or FullAttention()
        self.query_projection = nn.Linear(d_model, d_keys * n_heads)
        self.key_projection = nn.Linear(d_model, d_keys * n_heads)
        self.value_projection = nn.Linear(d_model, d_values * n_heads)
        self.out_projection = nn.Linear(d_values * n_heads, d_model)
        self.n_heads = n_heads

    def forward(self, queries, keys, values, valid=None):
        B, L, _ = queries.shape
        S, H = keys.shape[1], self.n_heads
        q = self.query_projection(queries).view(B, L, H, -1)
        k = self.key_projection(keys).view(B, S, H, -1)
        v = self.value_projection(values).view(B, S, H, -1)
        out, attn = self.inner_attention(q, k, v, valid)
        return self.out_projection(out.view(B, L, -1)), attn

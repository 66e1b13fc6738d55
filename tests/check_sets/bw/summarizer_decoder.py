"""BART-like decoder layer for a small abstractive summarizer.

The decoder reads its own prefix (causal) and the encoder states of the article,
which are usually much longer. encoder_mask is True for real tokens.
"""
from typing import Optional

import torch
import torch.nn as nn


class MultiHeadAttention(nn.Module):
    """Self-attention when `memory` is None, cross-attention otherwise."""

    def __init__(self, embed_dim: int, num_heads: int, dropout: float = 0.0):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.dropout = nn.Dropout(dropout)
        self.q_proj = nn.Linear(embed_dim, embed_dim)
        self.k_proj = nn.Linear(embed_dim, embed_dim)
        self.v_proj = nn.Linear(embed_dim, embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def forward(self, x: torch.Tensor, memory: Optional[torch.Tensor] = None,
                mask: Optional[torch.Tensor] = None) -> torch.Tensor:
        source = x if memory is None else memory
        bsz, seq_len, _ = source.shape

        q = self.q_proj(x).view(bsz, seq_len, self.num_heads, self.head_dim)
        k = self.k_proj(source).view(bsz, seq_len, self.num_heads, self.head_dim)
        v = self.v_proj(source).view(bsz, seq_len, self.num_heads, self.head_dim)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)

        scores = torch.matmul(q, k.transpose(-1, -2)) / self.head_dim ** 0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        weights = self.dropout(torch.softmax(scores, dim=-1))
        out = torch.matmul(weights, v).transpose(1, 2).flatten(2)
        return self.out_proj(out)


class DecoderLayer(nn.Module):
    def __init__(self, d_model: int = 32, num_heads: int = 4, ffn: int = 64,
                 dropout: float = 0.1):
        super().__init__()
        self.self_attn = MultiHeadAttention(d_model, num_heads, dropout)
        self.self_attn_layer_norm = nn.LayerNorm(d_model)
        self.encoder_attn = MultiHeadAttention(d_model, num_heads, dropout)
        self.encoder_attn_layer_norm = nn.LayerNorm(d_model)
        self.fc1 = nn.Linear(d_model, ffn)
        self.fc2 = nn.Linear(ffn, d_model)
        self.final_layer_norm = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, hidden_states: torch.Tensor, encoder_hidden_states: torch.Tensor,
                encoder_mask: Optional[torch.Tensor] = None) -> torch.Tensor:
        n = hidden_states.size(1)
        causal = torch.ones(n, n, dtype=torch.bool, device=hidden_states.device).tril()
        if encoder_mask is not None:
            encoder_mask = encoder_mask[:, None, None, :]

        residual = hidden_states
        y = self.self_attn(hidden_states, mask=causal)
        hidden_states = self.self_attn_layer_norm(residual + self.dropout(y))

        residual = hidden_states
        y = self.encoder_attn(hidden_states, encoder_hidden_states, mask=encoder_mask)
        hidden_states = self.encoder_attn_layer_norm(residual + self.dropout(y))

        residual = hidden_states
        y = self.fc2(self.dropout(nn.functional.gelu(self.fc1(hidden_states))))
        return self.final_layer_norm(residual + self.dropout(y))

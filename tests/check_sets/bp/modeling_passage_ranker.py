# coding=utf-8
"""Cross-encoder for passage re-ranking, attention through torch SDPA."""
from typing import Optional

import torch
import torch.nn.functional as F
from torch import nn


class RankerConfig:
    def __init__(self, vocab_size=200, hidden_size=48, num_attention_heads=4, num_hidden_layers=2,
                 intermediate_size=96, attention_probs_dropout_prob=0.1, max_position_embeddings=64):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_attention_heads = num_attention_heads
        self.num_hidden_layers = num_hidden_layers
        self.intermediate_size = intermediate_size
        self.attention_probs_dropout_prob = attention_probs_dropout_prob
        self.max_position_embeddings = max_position_embeddings


class RankerSdpaAttention(nn.Module):
    """`attention_mask` (batch, seq): 1 for tokens that are not masked, 0 for padding tokens."""

    def __init__(self, config):
        super().__init__()
        self.num_heads = config.num_attention_heads
        self.head_size = config.hidden_size // config.num_attention_heads
        self.query = nn.Linear(config.hidden_size, config.hidden_size)
        self.key = nn.Linear(config.hidden_size, config.hidden_size)
        self.value = nn.Linear(config.hidden_size, config.hidden_size)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.dropout_prob = config.attention_probs_dropout_prob

    def get_extended_attention_mask(self, attention_mask, dtype):
        # broadcastable to (batch, heads, from, to); 0.0 for positions to attend, finfo.min otherwise
        extended = attention_mask[:, None, None, :].to(dtype=dtype)
        return (1.0 - extended) * torch.finfo(dtype).min

    def transpose_for_scores(self, x):
        return x.view(x.size(0), x.size(1), self.num_heads, self.head_size).permute(0, 2, 1, 3)

    def forward(self, hidden_states, attention_mask: Optional[torch.Tensor] = None):
        query_layer = self.transpose_for_scores(self.query(hidden_states))
        key_layer = self.transpose_for_scores(self.key(hidden_states))
        value_layer = self.transpose_for_scores(self.value(hidden_states))

        attn_mask = None
        if attention_mask is not None:
            attn_mask = self.get_extended_attention_mask(attention_mask, query_layer.dtype)
            attn_mask = attn_mask.to(torch.bool)

        context = F.scaled_dot_product_attention(
            query_layer, key_layer, value_layer,
            attn_mask=attn_mask,
            dropout_p=self.dropout_prob if self.training else 0.0,
        )
        context = context.permute(0, 2, 1, 3).flatten(2)
        return self.dense(context)


class RankerLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attention = RankerSdpaAttention(config)
        self.ln1, self.ln2 = nn.LayerNorm(config.hidden_size), nn.LayerNorm(config.hidden_size)
        self.up = nn.Linear(config.hidden_size, config.intermediate_size)
        self.down = nn.Linear(config.intermediate_size, config.hidden_size)

    def forward(self, x, attention_mask=None):
        x = self.ln1(x + self.attention(x, attention_mask))
        return self.ln2(x + self.down(F.gelu(self.up(x))))


class PassageRanker(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.word = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=0)
        self.position = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.segment = nn.Embedding(2, config.hidden_size)
        self.layers = nn.ModuleList(RankerLayer(config) for _ in range(config.num_hidden_layers))
        self.score = nn.Linear(config.hidden_size, 1)

    def forward(self, input_ids, token_type_ids, attention_mask=None):
        pos = torch.arange(input_ids.size(1), device=input_ids.device)
        x = self.word(input_ids) + self.position(pos) + self.segment(token_type_ids)
        for layer in self.layers:
            x = layer(x, attention_mask)
        return self.score(x[:, 0]).squeeze(-1)

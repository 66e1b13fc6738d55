# coding=utf-8
"""PyTorch MiniT5: the attention layer of the T5 family with bucketed relative positions."""
import math

import torch
from torch import nn


class MiniT5Config:
    def __init__(self, d_model=32, d_kv=8, num_heads=4, num_buckets=8, max_distance=20, is_decoder=False):
        self.d_model = d_model
        self.d_kv = d_kv
        self.num_heads = num_heads
        self.relative_attention_num_buckets = num_buckets
        self.relative_attention_max_distance = max_distance
        self.is_decoder = is_decoder


class MiniT5Attention(nn.Module):
    """
    T5 does not divide the scores by sqrt(d_kv): the factor is folded into the initialisation of `q`.

    mask: additive, shape (batch, 1, query_length or 1, key_length), 0 for positions to keep.
    """

    def __init__(self, config: MiniT5Config):
        super().__init__()
        self.is_decoder = config.is_decoder
        self.num_buckets = config.relative_attention_num_buckets
        self.max_distance = config.relative_attention_max_distance
        self.n_heads, self.d_kv = config.num_heads, config.d_kv
        self.inner_dim = self.n_heads * self.d_kv
        self.q = nn.Linear(config.d_model, self.inner_dim, bias=False)
        self.k = nn.Linear(config.d_model, self.inner_dim, bias=False)
        self.v = nn.Linear(config.d_model, self.inner_dim, bias=False)
        self.o = nn.Linear(self.inner_dim, config.d_model, bias=False)
        self.relative_attention_bias = nn.Embedding(self.num_buckets, self.n_heads)
        self._init_weights(config)

    def _init_weights(self, config):
        self.q.weight.data.normal_(std=(config.d_model * config.d_kv) ** -0.5)
        self.k.weight.data.normal_(std=config.d_model ** -0.5)
        self.v.weight.data.normal_(std=config.d_model ** -0.5)
        self.o.weight.data.normal_(std=self.inner_dim ** -0.5)

    @staticmethod
    def _relative_position_bucket(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
        relative_buckets = 0
        if bidirectional:
            num_buckets //= 2
            relative_buckets += (relative_position > 0).to(torch.long) * num_buckets
            relative_position = torch.abs(relative_position)
        else:
            relative_position = -torch.min(relative_position, torch.zeros_like(relative_position))
        max_exact = num_buckets // 2
        is_small = relative_position < max_exact
        large = max_exact + (
            torch.log(relative_position.float().clamp(min=1) / max_exact)
            / math.log(max_distance / max_exact)
            * (num_buckets - max_exact)
        ).to(torch.long)
        large = torch.min(large, torch.full_like(large, num_buckets - 1))
        return relative_buckets + torch.where(is_small, relative_position, large)

    def compute_bias(self, query_length, key_length, device):
        context_position = torch.arange(query_length, device=device)[:, None]
        memory_position = torch.arange(key_length, device=device)[None, :]
        bucket = self._relative_position_bucket(
            memory_position - context_position,
            bidirectional=not self.is_decoder,
            num_buckets=self.num_buckets,
            max_distance=self.max_distance,
        )
        return self.relative_attention_bias(bucket).permute([2, 0, 1]).unsqueeze(0)

    def forward(self, hidden_states, mask=None, past_key_value=None, output_attentions=False):
        bsz, seq_length = hidden_states.shape[:2]

        def shape(states):
            return states.view(bsz, -1, self.n_heads, self.d_kv).transpose(1, 2)

        query = shape(self.q(hidden_states))
        key, value = shape(self.k(hidden_states)), shape(self.v(hidden_states))
        if past_key_value is not None:
            key = torch.cat([past_key_value[0], key], dim=2)
            value = torch.cat([past_key_value[1], value], dim=2)
        present = (key, value)
        real = key.shape[2]

        scores = torch.matmul(query, key.transpose(3, 2))
        position_bias = self.compute_bias(real, real, scores.device)[:, :, -seq_length:, :]
        if self.is_decoder:
            rows = torch.arange(real - seq_length, real, device=scores.device)[:, None]
            future = torch.arange(real, device=scores.device)[None, :] > rows
            position_bias = position_bias.masked_fill(future, torch.finfo(scores.dtype).min)
        if mask is not None:
            position_bias = (position_bias + mask).clamp(min=torch.finfo(scores.dtype).min)
        scores = scores + position_bias
        attn_weights = nn.functional.softmax(scores.float(), dim=-1).type_as(scores)
        out = torch.matmul(attn_weights, value).transpose(1, 2).reshape(bsz, -1, self.inner_dim)
        outputs = (self.o(out), present)
        return outputs + (attn_weights,) if output_attentions else outputs

"""MoosT5: encoder/decoder attention with bucketed relative bias (port from mesh-tensorflow).

Like the original, the dot product is not divided by sqrt(d_kv): the initialiser of the
query projection already carries that factor (see `_init_weights`).
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class MoosT5Config:
    def __init__(self, d_model=48, d_kv=12, num_heads=4, num_buckets=32, max_distance=128,
                 dropout_rate=0.0, is_decoder=False):
        self.d_model = d_model
        self.d_kv = d_kv
        self.num_heads = num_heads
        self.relative_attention_num_buckets = num_buckets
        self.relative_attention_max_distance = max_distance
        self.dropout_rate = dropout_rate
        self.is_decoder = is_decoder


class MoosT5LayerNorm(nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.eps = eps

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)


class MoosT5Attention(nn.Module):
    def __init__(self, config, has_relative_attention_bias=False):
        super().__init__()
        self.is_decoder = config.is_decoder
        self.n_heads = config.num_heads
        self.d_kv = config.d_kv
        self.num_buckets = config.relative_attention_num_buckets
        self.max_distance = config.relative_attention_max_distance
        self.dropout = config.dropout_rate
        inner = self.n_heads * self.d_kv
        self.q = nn.Linear(config.d_model, inner, bias=False)
        self.k = nn.Linear(config.d_model, inner, bias=False)
        self.v = nn.Linear(config.d_model, inner, bias=False)
        self.o = nn.Linear(inner, config.d_model, bias=False)
        self.has_relative_attention_bias = has_relative_attention_bias
        if has_relative_attention_bias:
            self.relative_attention_bias = nn.Embedding(self.num_buckets, self.n_heads)
        self._init_weights(config.d_model)

    def _init_weights(self, d_model):
        nn.init.normal_(self.q.weight, std=(d_model * self.d_kv) ** -0.5)
        nn.init.normal_(self.k.weight, std=d_model ** -0.5)
        nn.init.normal_(self.v.weight, std=d_model ** -0.5)
        nn.init.normal_(self.o.weight, std=(self.n_heads * self.d_kv) ** -0.5)

    @staticmethod
    def _relative_position_bucket(relative_position, bidirectional=True, num_buckets=32,
                                  max_distance=128):
        """relative_position = memory_position - query_position."""
        ret = torch.zeros_like(relative_position)
        n = -relative_position
        if bidirectional:
            num_buckets //= 2
            ret = ret + (n < 0).long() * num_buckets
            n = n.abs()
        else:
            n = n.clamp(min=0)
        max_exact = num_buckets // 2
        log_ratio = torch.log(n.clamp(min=1).float() / max_exact) / math.log(max_distance / max_exact)
        far = max_exact + (log_ratio * (num_buckets - max_exact)).long()
        far = far.clamp(max=num_buckets - 1)
        return ret + torch.where(n < max_exact, n, far)

    def compute_bias(self, query_length, key_length, device):
        # with a cache the queries are the last `query_length` positions
        ctx = torch.arange(key_length - query_length, key_length, device=device)[:, None]
        mem = torch.arange(key_length, device=device)[None, :]
        bucket = self._relative_position_bucket(
            mem - ctx, not self.is_decoder, self.num_buckets, self.max_distance)
        return self.relative_attention_bias(bucket).permute(2, 0, 1).unsqueeze(0)

    def forward(self, hidden, mask=None, key_value_states=None, position_bias=None, past=None):
        """mask: boolean, broadcastable to [B, 1, Lq, Lk], True where a key may be seen."""
        bsz, q_len, _ = hidden.shape

        def shape(t):
            return t.view(bsz, -1, self.n_heads, self.d_kv).transpose(1, 2)

        q = shape(self.q(hidden))
        if key_value_states is not None and past is not None:
            k, v = past
        else:
            src = hidden if key_value_states is None else key_value_states
            k, v = shape(self.k(src)), shape(self.v(src))
            if past is not None:
                k = torch.cat([past[0], k], dim=2)
                v = torch.cat([past[1], v], dim=2)

        scores = torch.matmul(q, k.transpose(3, 2))
        if position_bias is None and self.has_relative_attention_bias:
            position_bias = self.compute_bias(q_len, k.shape[2], scores.device)
        if position_bias is not None:
            scores = scores + position_bias
        if mask is not None:
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        weights = F.softmax(scores.float(), dim=-1).type_as(scores)
        weights = F.dropout(weights, p=self.dropout, training=self.training)
        ctx = torch.matmul(weights, v).transpose(1, 2).contiguous().view(bsz, q_len, -1)
        return self.o(ctx), (k, v), position_bias


class MoosT5Block(nn.Module):
    def __init__(self, config, first=False):
        super().__init__()
        self.ln_self = MoosT5LayerNorm(config.d_model)
        self.attn = MoosT5Attention(config, has_relative_attention_bias=first)
        self.is_decoder = config.is_decoder
        if self.is_decoder:
            self.ln_cross = MoosT5LayerNorm(config.d_model)
            self.cross = MoosT5Attention(config)
        self.ln_ff = MoosT5LayerNorm(config.d_model)
        self.wi = nn.Linear(config.d_model, 4 * config.d_model, bias=False)
        self.wo = nn.Linear(4 * config.d_model, config.d_model, bias=False)

    def forward(self, x, mask=None, memory=None, memory_mask=None, bias=None, past=None):
        y, kv, bias = self.attn(self.ln_self(x), mask, None, bias, past)
        x = x + y
        if self.is_decoder:
            x = x + self.cross(self.ln_cross(x), memory_mask, memory)[0]
        return x + self.wo(F.relu(self.wi(self.ln_ff(x)))), kv, bias

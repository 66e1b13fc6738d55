"""T5-style attention: no 1/sqrt(d) (folded into the initialiser), bucketed relative bias shared by the first layer."""
import math
from dataclasses import dataclass
from typing import Optional, Tuple

import torch
from torch import nn


@dataclass
class T5Config:
    d_model: int = 48
    d_kv: int = 12
    num_heads: int = 4
    relative_attention_num_buckets: int = 16
    relative_attention_max_distance: int = 32
    dropout_rate: float = 0.1
    is_decoder: bool = True
    initializer_factor: float = 1.0


class T5LayerNorm(nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.variance_epsilon = eps

    def forward(self, hidden_states):
        variance = hidden_states.pow(2).mean(-1, keepdim=True)
        return self.weight * hidden_states * torch.rsqrt(variance + self.variance_epsilon)


class T5Attention(nn.Module):
    def __init__(self, config: T5Config, has_relative_attention_bias: bool = True):
        super().__init__()
        self.cfg = config
        self.n_heads = config.num_heads
        self.d_kv = config.d_kv
        inner = self.n_heads * self.d_kv
        self.q = nn.Linear(config.d_model, inner, bias=False)
        self.k = nn.Linear(config.d_model, inner, bias=False)
        self.v = nn.Linear(config.d_model, inner, bias=False)
        self.o = nn.Linear(inner, config.d_model, bias=False)
        self.dropout = config.dropout_rate
        if has_relative_attention_bias:
            self.relative_attention_bias = nn.Embedding(config.relative_attention_num_buckets, self.n_heads)
        self.has_bias = has_relative_attention_bias
        f = config.initializer_factor
        self.q.weight.data.normal_(mean=0.0, std=f * (config.d_model * config.d_kv) ** -0.5)
        self.k.weight.data.normal_(mean=0.0, std=f * config.d_model ** -0.5)
        self.v.weight.data.normal_(mean=0.0, std=f * config.d_model ** -0.5)
        self.o.weight.data.normal_(mean=0.0, std=f * inner ** -0.5)

    def _bucket(self, relative_position):
        num_buckets = self.cfg.relative_attention_num_buckets
        max_distance = self.cfg.relative_attention_max_distance
        buckets = torch.zeros_like(relative_position)
        if not self.cfg.is_decoder:
            num_buckets //= 2
            buckets = buckets + (relative_position > 0).long() * num_buckets
            relative_position = relative_position.abs()
        else:
            relative_position = -torch.min(relative_position, torch.zeros_like(relative_position))
        max_exact = num_buckets // 2
        is_small = relative_position < max_exact
        large = max_exact + (
            torch.log(relative_position.float().clamp(min=1) / max_exact)
            / math.log(max_distance / max_exact) * (num_buckets - max_exact)
        ).long()
        large = torch.min(large, torch.full_like(large, num_buckets - 1))
        return buckets + torch.where(is_small, relative_position, large)

    def compute_bias(self, query_length, key_length, device):
        ctx = torch.arange(query_length, device=device)[:, None]
        mem = torch.arange(key_length, device=device)[None, :]
        values = self.relative_attention_bias(self._bucket(mem - ctx))
        return values.permute(2, 0, 1).unsqueeze(0)  # (1, heads, q, k)

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: Optional[torch.Tensor] = None,
        position_bias: Optional[torch.Tensor] = None,
    ) -> Tuple[torch.Tensor, torch.Tensor]:
        """hidden_states (B, L, D); attention_mask (B, L) with 1 = token, 0 = pad. Returns output and position bias."""
        B, L, _ = hidden_states.shape
        split = lambda t: t.view(B, L, self.n_heads, self.d_kv).transpose(1, 2)
        q, k, v = split(self.q(hidden_states)), split(self.k(hidden_states)), split(self.v(hidden_states))
        scores = torch.matmul(q, k.transpose(3, 2))
        if position_bias is None:
            if self.has_bias:
                position_bias = self.compute_bias(L, L, scores.device)
            else:
                position_bias = torch.zeros((1, self.n_heads, L, L), device=scores.device, dtype=scores.dtype)
            low = torch.finfo(scores.dtype).min
            visible = torch.ones(1, 1, L, L, dtype=torch.bool, device=scores.device)
            if self.cfg.is_decoder:
                visible = visible.tril()
            if attention_mask is not None:
                visible = visible & attention_mask[:, None, None, :].bool()
            position_bias = position_bias.masked_fill(~visible, low)
        scores = scores + position_bias
        attn_weights = nn.functional.softmax(scores.float(), dim=-1).type_as(scores)
        attn_weights = nn.functional.dropout(attn_weights, p=self.dropout, training=self.training)
        out = torch.matmul(attn_weights, v).transpose(1, 2).contiguous().view(B, L, -1)
        return self.o(out), position_bias

from typing import List, Optional

import torch
import torch.nn as nn


class DynamicCache:
    def __init__(self):
        self.key_cache: List[torch.Tensor] = []
        self.value_cache: List[torch.Tensor] = []

    def get_seq_length(self, layer_idx=0):
        if len(self.key_cache) <= layer_idx:
            return 0
        return self.key_cache[layer_idx].shape[-2]

    def update(self, key_states, value_states, layer_idx):
        if len(self.key_cache) <= layer_idx:
            self.key_cache.append(key_states)
            self.value_cache.append(value_states)
        else:
            self.key_cache[layer_idx] = torch.cat([self.key_cache[layer_idx], key_states], dim=-2)
            self.value_cache[layer_idx] = torch.cat([self.value_cache[layer_idx], value_states], dim=-2)
        return self.key_cache[layer_idx], self.value_cache[layer_idx]


def rotate_half(x):
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def repeat_kv(hidden_states, n_rep):
    batch, kv_heads, slen, head_dim = hidden_states.shape
    hidden_states = hidden_states[:, :, None].expand(batch, kv_heads, n_rep, slen, head_dim)
    return hidden_states.reshape(batch, kv_heads * n_rep, slen, head_dim)


class DecoderAttention(nn.Module):
    """Causal grouped-query attention with rotary positions; `past_key_values` holds what came before hidden_states."""

    def __init__(self, hidden_size=32, num_heads=4, num_key_value_heads=2, layer_idx=0, rope_theta=10000.0):
        super().__init__()
        self.num_heads, self.num_kv, self.layer_idx = num_heads, num_key_value_heads, layer_idx
        self.head_dim = hidden_size // num_heads
        self.scaling = self.head_dim**-0.5
        self.q_proj = nn.Linear(hidden_size, num_heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(hidden_size, num_key_value_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(hidden_size, num_key_value_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(num_heads * self.head_dim, hidden_size, bias=False)
        self.theta = rope_theta

    def forward(self, hidden_states, past_key_values: Optional[DynamicCache] = None):
        input_shape = hidden_states.shape[:-1]
        hidden_shape = (*input_shape, -1, self.head_dim)
        query_states = self.q_proj(hidden_states).view(hidden_shape).transpose(1, 2)
        key_states = self.k_proj(hidden_states).view(hidden_shape).transpose(1, 2)
        value_states = self.v_proj(hidden_states).view(hidden_shape).transpose(1, 2)
        past = past_key_values.get_seq_length(self.layer_idx) if past_key_values is not None else 0
        t = input_shape[1]
        dtype = hidden_states.dtype
        inv_freq = 1.0 / self.theta ** (torch.arange(0, self.head_dim, 2, dtype=dtype) / self.head_dim)
        freqs = torch.arange(past, past + t, dtype=dtype)[:, None] * inv_freq
        emb = torch.cat((freqs, freqs), dim=-1)
        cos, sin = emb.cos(), emb.sin()
        query_states = query_states * cos + rotate_half(query_states) * sin
        key_states = key_states * cos + rotate_half(key_states) * sin
        if past_key_values is not None:
            key_states, value_states = past_key_values.update(key_states, value_states, self.layer_idx)
        key_states = repeat_kv(key_states, self.num_heads // self.num_kv)
        value_states = repeat_kv(value_states, self.num_heads // self.num_kv)
        attn_weights = torch.matmul(query_states, key_states.transpose(2, 3)) * self.scaling
        s = key_states.shape[-2]
        visible = torch.arange(s)[None, :] <= torch.arange(past, past + t)[:, None]
        attn_weights = attn_weights + torch.zeros(t, s, dtype=dtype).masked_fill(~visible, torch.finfo(dtype).min)
        attn_weights = nn.functional.softmax(attn_weights, dim=-1)
        attn_output = torch.matmul(attn_weights, value_states).transpose(1, 2)
        return self.o_proj(attn_output.reshape(*input_shape, -1))

# coding=utf-8
"""PyTorch Quillon model (decoder only, grouped-query attention, rotary positions)."""
import math
from dataclasses import dataclass
from typing import List, Optional, Tuple

import torch
from torch import nn


@dataclass
class QuillonConfig:
    vocab_size: int = 512
    hidden_size: int = 64
    intermediate_size: int = 160
    num_hidden_layers: int = 2
    num_attention_heads: int = 8
    num_key_value_heads: int = 2
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10000.0
    attention_dropout: float = 0.0

    @property
    def head_dim(self) -> int:
        return self.hidden_size // self.num_attention_heads


class QuillonCache:
    """Grows by concatenation, one (key, value) pair for every layer, layout [B, Hkv, L, d]."""

    def __init__(self):
        self.keys: List[torch.Tensor] = []
        self.values: List[torch.Tensor] = []

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.keys[layer_idx].shape[-2] if layer_idx < len(self.keys) else 0

    def update(self, k, v, layer_idx):
        if layer_idx == len(self.keys):
            self.keys.append(k)
            self.values.append(v)
        else:
            self.keys[layer_idx] = torch.cat([self.keys[layer_idx], k], dim=-2)
            self.values[layer_idx] = torch.cat([self.values[layer_idx], v], dim=-2)
        return self.keys[layer_idx], self.values[layer_idx]


class QuillonRMSNorm(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.variance_epsilon = eps

    def forward(self, x):
        var = x.pow(2).mean(-1, keepdim=True)
        return self.weight * (x * torch.rsqrt(var + self.variance_epsilon))


class QuillonRotaryEmbedding(nn.Module):
    def __init__(self, config: QuillonConfig):
        super().__init__()
        exponent = torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
        self.register_buffer("inv_freq", config.rope_theta ** -exponent, persistent=False)

    def forward(self, x, position_ids):
        freqs = position_ids[:, :, None].float() * self.inv_freq[None, None, :]
        emb = torch.cat((freqs, freqs), dim=-1)
        return emb.cos().to(x.dtype), emb.sin().to(x.dtype)


def rotate_half(x):
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((-x2, x1), dim=-1)


def repeat_kv(hidden_states: torch.Tensor, n_rep: int) -> torch.Tensor:
    """[B, Hkv, L, d] -> [B, Hkv * n_rep, L, d], each kv head n_rep times in a row."""
    if n_rep == 1:
        return hidden_states
    b, h, l, d = hidden_states.shape
    return hidden_states[:, :, None].expand(b, h, n_rep, l, d).reshape(b, h * n_rep, l, d)


class QuillonAttention(nn.Module):
    def __init__(self, config: QuillonConfig, layer_idx: int):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.head_dim = config.head_dim
        self.num_key_value_groups = config.num_attention_heads // config.num_key_value_heads
        self.scaling = self.head_dim ** -0.5
        kv_width = config.num_key_value_heads * self.head_dim
        self.q_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, kv_width, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, kv_width, bias=False)
        self.o_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)

    def forward(
        self,
        hidden_states: torch.Tensor,
        position_embeddings: Tuple[torch.Tensor, torch.Tensor],
        attention_mask: Optional[torch.Tensor] = None,
        past_key_values: Optional[QuillonCache] = None,
    ):
        shape = (*hidden_states.shape[:-1], -1, self.head_dim)
        q = self.q_proj(hidden_states).view(shape).transpose(1, 2)
        k = self.k_proj(hidden_states).view(shape).transpose(1, 2)
        v = self.v_proj(hidden_states).view(shape).transpose(1, 2)

        cos, sin = (t.unsqueeze(1) for t in position_embeddings)
        q = q * cos + rotate_half(q) * sin
        k = k * cos + rotate_half(k) * sin
        if past_key_values is not None:
            k, v = past_key_values.update(k, v, self.layer_idx)

        k = repeat_kv(k, self.num_key_value_groups)
        v = repeat_kv(v, self.num_key_value_groups)
        attn = torch.matmul(q, k.transpose(2, 3)) * self.scaling
        if attention_mask is not None:
            attn = attn + attention_mask
        attn = nn.functional.softmax(attn, dim=-1, dtype=torch.float32).to(q.dtype)
        attn = nn.functional.dropout(attn, self.config.attention_dropout, training=self.training)
        out = torch.matmul(attn, v).transpose(1, 2)
        return self.o_proj(out.reshape(*hidden_states.shape[:-1], -1)), attn


def make_causal_mask(padding_mask, q_len, past_len, dtype):
    """padding_mask [B, past_len + q_len] of 0/1 (1 = real token) -> additive [B, 1, q, k]."""
    k_len = past_len + q_len
    rows = torch.arange(past_len, k_len, device=padding_mask.device)[:, None]
    cols = torch.arange(k_len, device=padding_mask.device)[None, :]
    allowed = (cols <= rows)[None] & padding_mask[:, None, :].bool()
    bias = torch.zeros(allowed.shape, dtype=dtype, device=allowed.device)
    return bias.masked_fill(~allowed, torch.finfo(dtype).min)[:, None]


class QuillonDecoderLayer(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.self_attn = QuillonAttention(config, layer_idx)
        self.gate_up = nn.Linear(config.hidden_size, 2 * config.intermediate_size, bias=False)
        self.down = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)
        self.input_layernorm = QuillonRMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = QuillonRMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(self, x, position_embeddings, mask, past):
        x = x + self.self_attn(self.input_layernorm(x), position_embeddings, mask, past)[0]
        gate, up = self.gate_up(self.post_attention_layernorm(x)).chunk(2, dim=-1)
        return x + self.down(nn.functional.silu(gate) * up)


class QuillonModel(nn.Module):
    def __init__(self, config: QuillonConfig):
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        nn.init.normal_(self.embed_tokens.weight, std=1 / math.sqrt(config.hidden_size))
        self.layers = nn.ModuleList(
            QuillonDecoderLayer(config, i) for i in range(config.num_hidden_layers))
        self.norm = QuillonRMSNorm(config.hidden_size, config.rms_norm_eps)
        self.rotary_emb = QuillonRotaryEmbedding(config)

    def forward(self, input_ids, attention_mask=None, past_key_values=None):
        past_len = past_key_values.get_seq_length() if past_key_values is not None else 0
        b, n = input_ids.shape
        if attention_mask is None:
            attention_mask = input_ids.new_ones(b, past_len + n)
        position_ids = (attention_mask.long().cumsum(-1) - 1).clamp(min=0)[:, -n:]
        x = self.embed_tokens(input_ids)
        mask = make_causal_mask(attention_mask, n, past_len, x.dtype)
        pos = self.rotary_emb(x, position_ids)
        for layer in self.layers:
            x = layer(x, pos, mask, past_key_values)
        return self.norm(x)

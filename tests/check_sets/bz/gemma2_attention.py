"""Gemma-2 attention layer, weights-compatible port (bf16 not needed on CPU).

Peculiarities of the family, all kept:
  * logits are multiplied by ``query_pre_attn_scalar ** -0.5`` - this is a config value and
    not the head size (27B uses 144 with a head size of 128);
  * logits are soft capped: ``cap * tanh(logits / cap)``, then masked;
  * even layers use a sliding window in which a token sees itself and the
    ``sliding_window - 1`` tokens before it, odd layers are fully causal;
  * grouped key/value heads, each shared by consecutive query heads.
"""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class GemmaConfig:
    hidden_size: int = 48
    num_attention_heads: int = 6
    num_key_value_heads: int = 2
    head_dim: int = 8
    query_pre_attn_scalar: float = 12.0
    attn_logit_softcapping: float = 50.0
    sliding_window: int = 4
    rope_theta: float = 10000.0


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


def rope_tables(positions, dim, theta):
    freq = theta ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    ang = positions.double()[:, None] * freq[None, :]
    ang = torch.cat((ang, ang), dim=-1)
    return ang.cos(), ang.sin()


class Gemma2Attention(nn.Module):
    def __init__(self, config: GemmaConfig, layer_idx: int):
        super().__init__()
        c = self.config = config
        self.window = c.sliding_window if layer_idx % 2 == 0 else None
        self.q_proj = nn.Linear(c.hidden_size, c.num_attention_heads * c.head_dim, bias=False)
        self.k_proj = nn.Linear(c.hidden_size, c.num_key_value_heads * c.head_dim, bias=False)
        self.v_proj = nn.Linear(c.hidden_size, c.num_key_value_heads * c.head_dim, bias=False)
        self.o_proj = nn.Linear(c.num_attention_heads * c.head_dim, c.hidden_size, bias=False)

    def forward(self, hidden_states):
        c = self.config
        bsz, seq, _ = hidden_states.shape
        q = self.q_proj(hidden_states).view(bsz, seq, -1, c.head_dim).transpose(1, 2)
        k = self.k_proj(hidden_states).view(bsz, seq, -1, c.head_dim).transpose(1, 2)
        v = self.v_proj(hidden_states).view(bsz, seq, -1, c.head_dim).transpose(1, 2)

        pos = torch.arange(seq, device=hidden_states.device)
        cos, sin = (t.to(q.dtype) for t in rope_tables(pos, c.head_dim, c.rope_theta))
        q = q * cos + rotate_half(q) * sin
        k = k * cos + rotate_half(k) * sin

        groups = c.num_attention_heads // c.num_key_value_heads
        k = k.repeat_interleave(groups, dim=1)
        v = v.repeat_interleave(groups, dim=1)

        logits = q @ k.transpose(-1, -2) * c.query_pre_attn_scalar ** -0.5
        if c.attn_logit_softcapping is not None:
            logits = torch.tanh(logits / c.attn_logit_softcapping) * c.attn_logit_softcapping
        delta = pos[:, None] - pos[None, :]
        allowed = delta >= 0
        if self.window is not None:
            allowed = allowed & (delta < self.window)
        logits = logits.masked_fill(~allowed, float("-inf"))
        probs = torch.softmax(logits, dim=-1, dtype=torch.float32).to(q.dtype)
        out = (probs @ v).transpose(1, 2).reshape(bsz, seq, -1)
        return self.o_proj(out)

"""Minimal clone of the Gemma-2 attention layer.

Config fields keep their Hugging Face names.  `query_pre_attn_scalar` is what
the scores are divided by the root of; `attn_logit_softcapping` squashes the
scaled scores to (-cap, cap) with cap * tanh(s / cap) before the mask, and None
turns it off.  Even layers are local: a token sees the last `sliding_window`
tokens, itself included.
"""
from dataclasses import dataclass
from typing import Optional

import torch
import torch.nn as nn


@dataclass
class Gemma2Config:
    hidden_size: int = 32
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 8
    query_pre_attn_scalar: float = 16.0
    attn_logit_softcapping: Optional[float] = 2.0
    sliding_window: int = 4
    rope_theta: float = 10000.0


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


class Gemma2Attention(nn.Module):
    def __init__(self, config: Gemma2Config = Gemma2Config(), layer_idx: int = 0):
        super().__init__()
        self.cfg = config
        self.is_sliding = layer_idx % 2 == 0
        self.scaling = config.query_pre_attn_scalar ** -0.5
        self.softcap = config.attn_logit_softcapping
        h, hk, d = config.num_attention_heads, config.num_key_value_heads, config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, h * d, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, hk * d, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, hk * d, bias=False)
        self.o_proj = nn.Linear(h * d, config.hidden_size, bias=False)

    def _rope(self, x):
        d, t = self.cfg.head_dim, x.shape[-2]
        inv = self.cfg.rope_theta ** (-torch.arange(0, d, 2, device=x.device, dtype=x.dtype) / d)
        f = torch.outer(torch.arange(t, device=x.device, dtype=x.dtype), inv)
        f = torch.cat((f, f), dim=-1)
        return x * f.cos() + rotate_half(x) * f.sin()

    def _mask(self, t, device):
        i = torch.arange(t, device=device)
        delta = i[:, None] - i[None, :]
        keep = delta >= 0
        if self.is_sliding:
            keep &= delta < self.cfg.sliding_window
        return keep

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        b, t, _ = hidden_states.shape
        d = self.cfg.head_dim
        q = self._rope(self.q_proj(hidden_states).view(b, t, -1, d).transpose(1, 2))
        k = self._rope(self.k_proj(hidden_states).view(b, t, -1, d).transpose(1, 2))
        v = self.v_proj(hidden_states).view(b, t, -1, d).transpose(1, 2)
        rep = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(rep, dim=1), v.repeat_interleave(rep, dim=1)

        scores = torch.matmul(q, k.transpose(2, 3)) * self.scaling
        scores = scores.masked_fill(~self._mask(t, scores.device), torch.finfo(scores.dtype).min)
        probs = torch.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
        y = torch.matmul(probs, v).transpose(1, 2).reshape(b, t, -1)
        return self.o_proj(y)

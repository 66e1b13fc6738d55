"""Port of grouped-query attention to our own training code. Checkpoints come from Hugging Face."""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class GQAConfig:
    hidden_size: int = 64
    num_attention_heads: int = 8
    num_key_value_heads: int = 2
    rope_theta: float = 10000.0


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


def rope(x, theta):
    """x (B, heads, T, d), positions 0..T-1, halves (i, i + d/2) rotate together."""
    T, d = x.shape[-2:]
    inv = 1.0 / theta ** (torch.arange(0, d, 2, device=x.device).float() / d)
    ang = torch.outer(torch.arange(T, device=x.device).float(), inv)
    ang = torch.cat((ang, ang), dim=-1)
    return x * ang.cos() + rotate_half(x) * ang.sin()


class GroupedQueryAttention(nn.Module):
    """hidden_states (B, T, hidden) -> (B, T, hidden), causal.

    As in the checkpoints, num_attention_heads / num_key_value_heads consecutive query heads
    share one key/value head: with 8 and 2, query heads 0-3 use kv head 0 and 4-7 use kv head 1.
    """

    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.hd = cfg.hidden_size // cfg.num_attention_heads
        self.q_proj = nn.Linear(cfg.hidden_size, cfg.num_attention_heads * self.hd, bias=False)
        self.k_proj = nn.Linear(cfg.hidden_size, cfg.num_key_value_heads * self.hd, bias=False)
        self.v_proj = nn.Linear(cfg.hidden_size, cfg.num_key_value_heads * self.hd, bias=False)
        self.o_proj = nn.Linear(cfg.num_attention_heads * self.hd, cfg.hidden_size, bias=False)

    def forward(self, hidden_states):
        B, T, _ = hidden_states.shape
        q = self.q_proj(hidden_states).view(B, T, -1, self.hd).transpose(1, 2)
        k = self.k_proj(hidden_states).view(B, T, -1, self.hd).transpose(1, 2)
        v = self.v_proj(hidden_states).view(B, T, -1, self.hd).transpose(1, 2)
        q, k = rope(q, self.cfg.rope_theta), rope(k, self.cfg.rope_theta)
        groups = self.cfg.num_attention_heads // self.cfg.num_key_value_heads
        k = k.repeat(1, groups, 1, 1)
        v = v.repeat(1, groups, 1, 1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(y.transpose(1, 2).reshape(B, T, -1))

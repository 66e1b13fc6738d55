from dataclasses import dataclass
from typing import Optional

import torch
from torch import nn
import torch.nn.functional as F


@dataclass
class QwenConfig:
    hidden_size: int = 64
    intermediate_size: int = 128
    num_attention_heads: int = 8
    num_key_value_heads: int = 2
    head_dim: int = 8
    rope_theta: float = 1e6
    rms_norm_eps: float = 1e-6


class RMSNorm(nn.Module):
    def __init__(self, dim: int, eps: float):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))


def rotate_half(x):
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((-x2, x1), dim=-1)


def rotary(T, dim, theta, device):
    inv = 1.0 / theta ** (torch.arange(0, dim, 2, device=device).float() / dim)
    f = torch.outer(torch.arange(T, device=device).float(), inv)
    emb = torch.cat((f, f), -1)
    return emb.cos(), emb.sin()


def repeat_kv(hidden: torch.Tensor, n_rep: int) -> torch.Tensor:
    """(B, kv_heads, T, D) -> (B, heads, T, D).  Query heads g * n_rep ... g * n_rep + n_rep - 1 share kv head g,
    as in torch.repeat_interleave(hidden, n_rep, dim=1)."""
    return hidden.repeat(1, n_rep, 1, 1)


class Qwen3Attention(nn.Module):
    def __init__(self, config: QwenConfig):
        super().__init__()
        self.c = config
        h, kv, d = config.num_attention_heads, config.num_key_value_heads, config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, h * d, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, kv * d, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, kv * d, bias=False)
        self.o_proj = nn.Linear(h * d, config.hidden_size, bias=False)
        self.q_norm = RMSNorm(d, config.rms_norm_eps)
        self.k_norm = RMSNorm(d, config.rms_norm_eps)

    def forward(self, x):
        B, T, _ = x.shape
        d = self.c.head_dim
        q = self.q_norm(self.q_proj(x).view(B, T, -1, d)).transpose(1, 2)
        k = self.k_norm(self.k_proj(x).view(B, T, -1, d)).transpose(1, 2)
        v = self.v_proj(x).view(B, T, -1, d).transpose(1, 2)
        cos, sin = (t.to(x.dtype) for t in rotary(T, d, self.c.rope_theta, x.device))
        q = q * cos + rotate_half(q) * sin
        k = k * cos + rotate_half(k) * sin
        n_rep = self.c.num_attention_heads // self.c.num_key_value_heads
        k, v = repeat_kv(k, n_rep), repeat_kv(v, n_rep)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(y.transpose(1, 2).reshape(B, T, -1))


class Qwen3Block(nn.Module):
    def __init__(self, config: Optional[QwenConfig] = None):
        super().__init__()
        config = config or QwenConfig()
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = Qwen3Attention(config)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, hidden_states):
        x = hidden_states + self.self_attn(self.input_layernorm(hidden_states))
        h = self.post_attention_layernorm(x)
        return x + self.down_proj(F.silu(self.gate_proj(h)) * self.up_proj(h))

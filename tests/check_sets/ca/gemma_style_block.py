"""Gemma-2 style attention for the docstring generator.

Grouped heads (query head h uses kv head h // group), half-split rotary embedding, scores
divided by sqrt(head_dim), then soft-capped to (-cap, cap) with cap * tanh(s / cap) before
the causal mask.  ``softcap=None`` turns the capping off.
"""
import dataclasses
from typing import Optional

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclasses.dataclass(frozen=True)
class GemmaConfig:
    hidden_size: int = 48
    num_heads: int = 6
    num_kv_heads: int = 2
    head_dim: int = 8
    softcap: Optional[float] = 5.0
    rope_theta: float = 10_000.0
    eps: float = 1e-6


class GemmaRMSNorm(nn.Module):
    def __init__(self, dim: int, eps: float):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        x = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps)
        return x * (1 + self.weight)


def rotary(x: torch.Tensor, theta: float) -> torch.Tensor:
    """x: [b, heads, seq, dim]"""
    half = x.size(-1) // 2
    freq = theta ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
    angle = torch.arange(x.size(-2), device=x.device, dtype=torch.float32)[:, None] * freq
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    x1, x2 = x[..., :half], x[..., half:]
    return torch.cat((x1 * cos - x2 * sin, x2 * cos + x1 * sin), dim=-1)


class GemmaAttention(nn.Module):
    def __init__(self, config: GemmaConfig = GemmaConfig()):
        super().__init__()
        self.config = config
        self.softcap = config.softcap
        self.scaling = config.hidden_size ** -0.5
        self.groups = config.num_heads // config.num_kv_heads
        width_q = config.num_heads * config.head_dim
        width_kv = config.num_kv_heads * config.head_dim
        self.pre_norm = GemmaRMSNorm(config.hidden_size, config.eps)
        self.q_proj = nn.Linear(config.hidden_size, width_q, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, width_kv, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, width_kv, bias=False)
        self.o_proj = nn.Linear(width_q, config.hidden_size, bias=False)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        b, n, _ = hidden.shape
        x = self.pre_norm(hidden)
        shape = (b, n, -1, self.config.head_dim)
        q = rotary(self.q_proj(x).view(shape).transpose(1, 2), self.config.rope_theta)
        k = rotary(self.k_proj(x).view(shape).transpose(1, 2), self.config.rope_theta)
        v = self.v_proj(x).view(shape).transpose(1, 2)
        k = k.repeat_interleave(self.groups, dim=1)
        v = v.repeat_interleave(self.groups, dim=1)

        scores = torch.matmul(q, k.transpose(2, 3)) * self.scaling
        future = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)
        scores = scores.masked_fill(future, float("-inf"))
        probs = F.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
        out = torch.matmul(probs, v).transpose(1, 2).reshape(b, n, -1)
        return hidden + self.o_proj(out)

"""Grouped-query attention for the phi-mini language model."""
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class PhiConfig:
    hidden_size: int = 32
    num_heads: int = 4
    num_kv_heads: int = 2
    rope_base: float = 10000.0


def rope(x, base):
    """Rotary embedding, half-split, x: [B, L, H, D]."""
    b, l, h, d = x.shape
    inv = base ** (-torch.arange(0, d, 2, device=x.device, dtype=torch.float32) / d)
    ang = torch.arange(l, device=x.device, dtype=torch.float32)[:, None] * inv
    cos, sin = ang.cos()[:, None, :].to(x.dtype), ang.sin()[:, None, :].to(x.dtype)
    x1, x2 = x[..., : d // 2], x[..., d // 2:]
    return torch.cat([x1 * cos - x2 * sin, x2 * cos + x1 * sin], dim=-1)


def expand_kv(x, n_rep):
    """[B, L, Hkv, D] -> [B, L, Hkv * n_rep, D], every kv head serves n_rep query heads."""
    if n_rep == 1:
        return x
    b, l, hkv, d = x.shape
    return x.repeat(1, n_rep, 1, 1).reshape(b, l, hkv * n_rep, d)


class GroupedQueryAttention(nn.Module):
    def __init__(self, cfg: PhiConfig = PhiConfig()):
        super().__init__()
        assert cfg.num_heads % cfg.num_kv_heads == 0
        self.cfg = cfg
        self.head_dim = cfg.hidden_size // cfg.num_heads
        self.n_rep = cfg.num_heads // cfg.num_kv_heads
        kv = cfg.num_kv_heads * self.head_dim
        self.q_proj = nn.Linear(cfg.hidden_size, cfg.hidden_size, bias=False)
        self.k_proj = nn.Linear(cfg.hidden_size, kv, bias=False)
        self.v_proj = nn.Linear(cfg.hidden_size, kv, bias=False)
        self.o_proj = nn.Linear(cfg.hidden_size, cfg.hidden_size, bias=False)

    def forward(self, x):
        b, l, _ = x.shape
        q = self.q_proj(x).view(b, l, self.cfg.num_heads, self.head_dim)
        k = self.k_proj(x).view(b, l, self.cfg.num_kv_heads, self.head_dim)
        v = self.v_proj(x).view(b, l, self.cfg.num_kv_heads, self.head_dim)
        q, k = rope(q, self.cfg.rope_base), rope(k, self.cfg.rope_base)
        k, v = expand_kv(k, self.n_rep), expand_kv(v, self.n_rep)

        att = torch.einsum("bqhd,bkhd->bhqk", q, k) * self.head_dim ** -0.5
        future = torch.ones(l, l, dtype=torch.bool, device=x.device).triu(1)
        att = att.masked_fill(future, float("-inf")).float().softmax(-1).to(x.dtype)
        y = torch.einsum("bhqk,bkhd->bqhd", att, v)
        return self.o_proj(y.reshape(b, l, -1))

"""Gemma-2-like decoder attention: grouped heads and soft-capped logits.

Layout is [batch, seq, heads, head_dim] until the product.  Query head h uses the
key/value head h // (n_heads // n_kv_heads).  Logits are passed through
cap * tanh(logits / cap) before the causal mask when `attn_logit_softcap` is set.
"""
from dataclasses import dataclass
from typing import Optional

import torch
from torch import nn


@dataclass
class GemmaConfig:
    hidden: int = 64
    n_heads: int = 8
    n_kv_heads: int = 4
    head_dim: int = 16
    query_pre_attn_scalar: int = 16
    attn_logit_softcap: Optional[float] = 50.0


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        y = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + self.eps)
        return (y * (1.0 + self.weight.float())).type_as(x)


def expand_kv(t: torch.Tensor, groups: int) -> torch.Tensor:
    """[B, S, KV, D] -> [B, S, KV * groups, D]"""
    b, s, kv, d = t.shape
    t = t[:, None].expand(b, groups, s, kv, d)
    return t.reshape(b, s, kv * groups, d)


class GemmaAttention(nn.Module):
    def __init__(self, cfg: GemmaConfig):
        super().__init__()
        self.cfg = cfg
        self.scaling = cfg.query_pre_attn_scalar ** -0.5
        self.softcap = cfg.attn_logit_softcap
        self.q_proj = nn.Linear(cfg.hidden, cfg.n_heads * cfg.head_dim, bias=False)
        self.k_proj = nn.Linear(cfg.hidden, cfg.n_kv_heads * cfg.head_dim, bias=False)
        self.v_proj = nn.Linear(cfg.hidden, cfg.n_kv_heads * cfg.head_dim, bias=False)
        self.o_proj = nn.Linear(cfg.n_heads * cfg.head_dim, cfg.hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        c = self.cfg
        b, s, _ = x.shape
        q = self.q_proj(x).view(b, s, c.n_heads, c.head_dim)
        k = self.k_proj(x).view(b, s, c.n_kv_heads, c.head_dim)
        v = self.v_proj(x).view(b, s, c.n_kv_heads, c.head_dim)
        k = expand_kv(k, c.n_heads // c.n_kv_heads)
        v = expand_kv(v, c.n_heads // c.n_kv_heads)

        logits = torch.einsum("bqhd,bkhd->bhqk", q * self.scaling, k)
        future = torch.ones(s, s, dtype=torch.bool, device=x.device).triu(1)
        logits = logits.masked_fill(future, torch.finfo(logits.dtype).min)
        probs = logits.float().softmax(dim=-1).type_as(v)
        out = torch.einsum("bhqk,bkhd->bqhd", probs, v)
        return self.o_proj(out.reshape(b, s, -1))


class GemmaBlock(nn.Module):
    def __init__(self, cfg: GemmaConfig = GemmaConfig()):
        super().__init__()
        self.pre, self.post = RMSNorm(cfg.hidden), RMSNorm(cfg.hidden)
        self.attn = GemmaAttention(cfg)

    def forward(self, x):
        return x + self.post(self.attn(self.pre(x)))

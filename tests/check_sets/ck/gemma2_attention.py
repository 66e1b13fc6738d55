"""Gemma 2 attention: GQA, logit soft-capping, sliding window in every other layer."""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Gemma2Config:
    hidden_size: int = 48
    num_heads: int = 4
    num_kv_heads: int = 2
    head_dim: int = 16
    query_pre_attn_scalar: int = 16
    attn_logit_softcapping: float = 50.0
    sliding_window: int = 4
    rope_theta: float = 10000.0


class Gemma2Attention(nn.Module):
    """Causal; even layers see only the last `sliding_window` tokens, the current one counted."""

    def __init__(self, config: Gemma2Config = Gemma2Config(), layer_idx: int = 0):
        super().__init__()
        c = self.config = config
        self.window = c.sliding_window if layer_idx % 2 == 0 else None
        self.groups = c.num_heads // c.num_kv_heads
        self.q_proj = nn.Linear(c.hidden_size, c.num_heads * c.head_dim, bias=False)
        self.k_proj = nn.Linear(c.hidden_size, c.num_kv_heads * c.head_dim, bias=False)
        self.v_proj = nn.Linear(c.hidden_size, c.num_kv_heads * c.head_dim, bias=False)
        self.o_proj = nn.Linear(c.num_heads * c.head_dim, c.hidden_size, bias=False)
        self.scaling = c.query_pre_attn_scalar ** -0.5

    def _rope(self, x):
        # x: (B, T, n, d)
        d = x.shape[-1]
        freq = self.config.rope_theta ** (-torch.arange(0, d, 2, device=x.device).float() / d)
        ang = torch.arange(x.shape[1], device=x.device).float()[:, None] * freq
        cos, sin = ang.cos()[:, None], ang.sin()[:, None]
        x1, x2 = x[..., : d // 2], x[..., d // 2 :]
        return torch.cat([x1 * cos - x2 * sin, x2 * cos + x1 * sin], dim=-1)

    def forward(self, x):
        B, T, _ = x.shape
        c = self.config
        q = self._rope(self.q_proj(x).view(B, T, -1, c.head_dim))
        k = self._rope(self.k_proj(x).view(B, T, -1, c.head_dim))
        v = self.v_proj(x).view(B, T, -1, c.head_dim)
        # query heads as (kv head, group): head h belongs to kv head h // groups
        q = q.view(B, T, c.num_kv_heads, self.groups, c.head_dim)
        logits = torch.einsum("btkgd,bskd->bkgts", q, k) * self.scaling
        logits = c.attn_logit_softcapping * torch.tanh(logits / c.attn_logit_softcapping)

        i = torch.arange(T, device=x.device)[:, None]
        j = torch.arange(T, device=x.device)[None, :]
        allowed = j <= i
        if self.window is not None:
            allowed = allowed & (i - j < self.window)
        logits = torch.where(allowed, logits, torch.finfo(logits.dtype).min)
        p = logits.softmax(-1)
        o = torch.einsum("bkgts,bskd->btkgd", p, v)
        return self.o_proj(o.reshape(B, T, -1))

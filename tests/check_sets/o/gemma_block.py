from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class GemmaConfig:
    dim: int = 24
    n_heads: int = 4
    n_kv_heads: int = 2
    head_dim: int = 8
    attn_logit_softcapping: float = 5.0


class GemmaAttention(nn.Module):
    """Causal.  The scores are squashed by attn_logit_softcapping * tanh(scores / attn_logit_softcapping)."""

    def __init__(self, cfg: GemmaConfig = GemmaConfig()):
        super().__init__()
        self.cfg = cfg
        self.q_proj = nn.Linear(cfg.dim, cfg.n_heads * cfg.head_dim, bias=False)
        self.k_proj = nn.Linear(cfg.dim, cfg.n_kv_heads * cfg.head_dim, bias=False)
        self.v_proj = nn.Linear(cfg.dim, cfg.n_kv_heads * cfg.head_dim, bias=False)
        self.o_proj = nn.Linear(cfg.n_heads * cfg.head_dim, cfg.dim, bias=False)
        self.scaling = cfg.head_dim ** 0.5
        self.softcap = cfg.attn_logit_softcapping

    def forward(self, x):
        c = self.cfg
        b, n, _ = x.shape
        q = self.q_proj(x).view(b, n, c.n_heads, c.head_dim).transpose(1, 2)
        k = self.k_proj(x).view(b, n, c.n_kv_heads, c.head_dim).transpose(1, 2)
        v = self.v_proj(x).view(b, n, c.n_kv_heads, c.head_dim).transpose(1, 2)
        groups = c.n_heads // c.n_kv_heads
        k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
        scores = torch.matmul(q, k.transpose(2, 3)) * self.scaling
        scores = scores.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), float("-inf"))
        probs = torch.softmax(scores, dim=-1)
        return self.o_proj(torch.matmul(probs, v).transpose(1, 2).reshape(b, n, -1))

from dataclasses import dataclass
from typing import Optional

import torch
from torch import nn
import torch.nn.functional as F


@dataclass
class GemmaCfg:
    hidden: int = 64
    n_q_heads: int = 8
    n_kv_heads: int = 2
    head_dim: int = 16
    attn_softcap: Optional[float] = 5.0      # much tighter than Gemma 2's 50, the model is tiny
    rope_theta: float = 10_000.0
    ffn: int = 128


def rope(x: torch.Tensor, theta: float) -> torch.Tensor:
    # x: (B, H, T, D), rotate-half convention
    T, D = x.shape[-2:]
    inv = theta ** (-torch.arange(0, D // 2, device=x.device).float() * 2 / D)
    ang = torch.arange(T, device=x.device).float()[:, None] * inv
    c, s = ang.cos().to(x.dtype), ang.sin().to(x.dtype)
    lo, hi = x[..., : D // 2], x[..., D // 2:]
    return torch.cat([lo * c - hi * s, hi * c + lo * s], -1)


class GemmaAttention(nn.Module):
    """Grouped-query attention: consecutive query heads share a kv head
    (heads 0..g-1 -> kv 0, heads g..2g-1 -> kv 1, ...)."""

    def __init__(self, cfg: GemmaCfg):
        super().__init__()
        self.cfg = cfg
        self.g = cfg.n_q_heads // cfg.n_kv_heads
        self.wq = nn.Linear(cfg.hidden, cfg.n_q_heads * cfg.head_dim, bias=False)
        self.wk = nn.Linear(cfg.hidden, cfg.n_kv_heads * cfg.head_dim, bias=False)
        self.wv = nn.Linear(cfg.hidden, cfg.n_kv_heads * cfg.head_dim, bias=False)
        self.wo = nn.Linear(cfg.n_q_heads * cfg.head_dim, cfg.hidden, bias=False)

    def forward(self, x: torch.Tensor, pad: Optional[torch.Tensor] = None) -> torch.Tensor:
        cfg = self.cfg
        B, T, _ = x.shape
        q = self.wq(x).view(B, T, cfg.n_q_heads, cfg.head_dim).transpose(1, 2)
        k = self.wk(x).view(B, T, cfg.n_kv_heads, cfg.head_dim).transpose(1, 2)
        v = self.wv(x).view(B, T, cfg.n_kv_heads, cfg.head_dim).transpose(1, 2)
        q, k = rope(q, cfg.rope_theta), rope(k, cfg.rope_theta)

        k = k.repeat(1, self.g, 1, 1)
        v = v.repeat(1, self.g, 1, 1)

        logits = q @ k.mT * cfg.head_dim ** -0.5
        blocked = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
        if pad is not None:                      # (B, T), True = padding
            blocked = blocked | pad[:, None, None, :]
        logits = logits.masked_fill(blocked, torch.finfo(logits.dtype).min)
        if cfg.attn_softcap is not None:
            logits = cfg.attn_softcap * torch.tanh(logits / cfg.attn_softcap)
        probs = F.softmax(logits, dim=-1, dtype=torch.float32).to(q.dtype)
        out = (probs @ v).transpose(1, 2).reshape(B, T, -1)
        return self.wo(out)


class GemmaBlock(nn.Module):
    def __init__(self, cfg: GemmaCfg):
        super().__init__()
        self.pre_attn = nn.RMSNorm(cfg.hidden)
        self.post_attn = nn.RMSNorm(cfg.hidden)
        self.pre_ffn = nn.RMSNorm(cfg.hidden)
        self.post_ffn = nn.RMSNorm(cfg.hidden)
        self.attn = GemmaAttention(cfg)
        self.gate = nn.Linear(cfg.hidden, cfg.ffn, bias=False)
        self.up = nn.Linear(cfg.hidden, cfg.ffn, bias=False)
        self.down = nn.Linear(cfg.ffn, cfg.hidden, bias=False)

    def forward(self, x, pad=None):
        x = x + self.post_attn(self.attn(self.pre_attn(x), pad))
        h = self.pre_ffn(x)
        return x + self.post_ffn(self.down(F.gelu(self.gate(h), approximate="tanh") * self.up(h)))

"""Attention block for the "oss" family of checkpoints (packed single sequence).

Layout: activations are [n_tokens, hidden].  Every query head owns one learned
"sink" logit which takes part in the softmax but carries no value.
Layers with ``window > 0`` see the last ``window`` tokens, themselves included;
``window == 0`` is full causal attention.
"""
import math
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class BlockConfig:
    hidden_size: int = 64
    num_q_heads: int = 8
    num_kv_heads: int = 2
    head_dim: int = 16
    rope_theta: float = 150000.0
    window: int = 0


class RMSNorm(nn.Module):
    def __init__(self, dim: int, eps: float = 1e-5):
        super().__init__()
        self.eps = eps
        self.scale = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        t = x.float()
        t = t * torch.rsqrt(t.pow(2).mean(-1, keepdim=True) + self.eps)
        return (t * self.scale).to(x.dtype)


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """x: [T, ..., D]; cos/sin: [T, D/2].  First half pairs with second half."""
    shape = (x.shape[0],) + (1,) * (x.dim() - 2) + (cos.shape[-1],)
    cos, sin = cos.view(shape), sin.view(shape)
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


class SinkAttention(nn.Module):
    """Pre-norm residual attention: ``y = x + Attn(norm(x))``."""

    def __init__(self, cfg: BlockConfig):
        super().__init__()
        assert cfg.num_q_heads % cfg.num_kv_heads == 0
        self.cfg = cfg
        self.norm = RMSNorm(cfg.hidden_size)
        width = cfg.head_dim * (cfg.num_q_heads + 2 * cfg.num_kv_heads)
        self.qkv = nn.Linear(cfg.hidden_size, width)
        self.out = nn.Linear(cfg.head_dim * cfg.num_q_heads, cfg.hidden_size)
        self.sinks = nn.Parameter(torch.randn(cfg.num_q_heads))
        self.sm_scale = 1.0 / math.sqrt(cfg.head_dim)

    def _tables(self, n: int, device):
        d = self.cfg.head_dim
        inv = self.cfg.rope_theta ** (-torch.arange(0, d, 2, device=device).float() / d)
        ang = torch.arange(n, device=device).float()[:, None] * inv[None]
        return ang.cos(), ang.sin()

    def _sdpa(self, q, k, v):
        # q: [T, Hkv, G, D]   k, v: [T, Hkv, D]
        n, h_kv, group, _ = q.shape
        scores = torch.einsum("qhgd,khd->hgqk", q, k).float() * self.sm_scale
        bad = torch.triu(torch.ones(n, n, dtype=torch.bool, device=q.device), 1)
        if self.cfg.window > 0:
            bad = bad | torch.tril(torch.ones_like(bad), -self.cfg.window)
        scores = scores.masked_fill(bad, float("-inf"))
        sink = self.sinks.float().view(h_kv, group, 1, 1).expand(-1, -1, n, 1)
        probs = torch.cat([scores, sink], dim=-1).softmax(dim=-1)[..., :-1]
        return torch.einsum("hgqk,khd->qhgd", probs.to(v.dtype), v).reshape(n, -1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        c = self.cfg
        n = x.shape[0]
        q, k, v = self.qkv(self.norm(x)).split(
            [c.num_q_heads * c.head_dim, c.num_kv_heads * c.head_dim, c.num_kv_heads * c.head_dim], dim=-1
        )
        q = q.view(n, c.num_kv_heads, c.num_q_heads // c.num_kv_heads, c.head_dim)
        k = k.view(n, c.num_kv_heads, c.head_dim)
        v = v.view(n, c.num_kv_heads, c.head_dim)
        cos, sin = self._tables(n, x.device)
        q = rotate(q, cos.to(q.dtype), sin.to(q.dtype))
        k = rotate(k, cos.to(k.dtype), sin.to(k.dtype))
        return x + self.out(self._sdpa(q, k, v))

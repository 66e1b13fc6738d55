"""A small Gemma-2 for protein-family descriptions.

Odd layers look at everything before, even layers at a sliding window.
"""
from __future__ import annotations

import dataclasses

import torch
from torch import nn


@dataclasses.dataclass(frozen=True)
class MiniConfig:
    vocab_size: int = 512
    hidden_size: int = 64
    num_heads: int = 4
    num_kv_heads: int = 2
    head_dim: int = 16
    query_pre_attn_scalar: int = 16
    attn_logit_softcapping: float = 50.0
    # number of tokens that a token of a local layer sees, itself included
    sliding_window: int = 8
    num_layers: int = 2
    rms_norm_eps: float = 1e-6


class RMSNorm(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        y = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + self.eps)
        return (y * (1 + self.weight.float())).type_as(x)


def apply_rotary_emb(x: torch.Tensor, theta: float = 10000.0) -> torch.Tensor:
    """x [B, H, L, D]; pairs (i, i + D/2)."""
    D, L = x.shape[-1], x.shape[-2]
    freqs = theta ** (-torch.arange(0, D // 2, dtype=torch.float32, device=x.device) * 2 / D)
    ang = torch.outer(torch.arange(L, device=x.device).float(), freqs)
    cos, sin = ang.cos().to(x.dtype), ang.sin().to(x.dtype)
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


class GemmaAttention(nn.Module):
    """Causal grouped-query attention with soft-capped logits.

    Query head h belongs to kv head h // (num_heads // num_kv_heads).
    """

    def __init__(self, config: MiniConfig, local: bool):
        super().__init__()
        self.config, self.local = config, local
        self.q_size = config.num_heads * config.head_dim
        self.kv_size = config.num_kv_heads * config.head_dim
        self.qkv_proj = nn.Linear(config.hidden_size, self.q_size + 2 * self.kv_size, bias=False)
        self.o_proj = nn.Linear(self.q_size, config.hidden_size, bias=False)
        self.scaling = config.query_pre_attn_scalar ** -0.5

    def _mask(self, L: int, device) -> torch.Tensor:
        i = torch.arange(L, device=device)
        distance = i[:, None] - i[None, :]
        hidden = distance < 0
        if self.local:
            hidden = hidden | (distance > self.config.sliding_window)
        return torch.zeros(L, L, device=device).masked_fill(hidden, float("-inf"))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, L, _ = x.shape
        c = self.config
        q, k, v = self.qkv_proj(x).split([self.q_size, self.kv_size, self.kv_size], dim=-1)
        q = apply_rotary_emb(q.view(B, L, c.num_heads, c.head_dim).transpose(1, 2))
        k = apply_rotary_emb(k.view(B, L, c.num_kv_heads, c.head_dim).transpose(1, 2))
        v = v.view(B, L, c.num_kv_heads, c.head_dim).transpose(1, 2)
        rep = c.num_heads // c.num_kv_heads
        k, v = k.repeat_interleave(rep, dim=1), v.repeat_interleave(rep, dim=1)

        scores = torch.matmul(q * self.scaling, k.transpose(2, 3)) + self._mask(L, x.device)
        if c.attn_logit_softcapping is not None:
            scores = scores / c.attn_logit_softcapping
            scores = torch.tanh(scores)
            scores = scores * c.attn_logit_softcapping
        probs = torch.softmax(scores.float(), dim=-1).type_as(q)
        return self.o_proj(torch.matmul(probs, v).transpose(1, 2).reshape(B, L, -1))


class MiniGemma(nn.Module):
    def __init__(self, config: MiniConfig = MiniConfig()):
        super().__init__()
        self.embedder = nn.Embedding(config.vocab_size, config.hidden_size)
        self.normalizer = config.hidden_size ** 0.5
        self.layers = nn.ModuleList(GemmaAttention(config, i % 2 == 0) for i in range(config.num_layers))
        self.norms = nn.ModuleList(RMSNorm(config.hidden_size, config.rms_norm_eps) for _ in range(config.num_layers))

    def forward(self, ids):
        x = self.embedder(ids) * self.normalizer
        for norm, layer in zip(self.norms, self.layers):
            x = x + layer(norm(x))
        return x @ self.embedder.weight.t()

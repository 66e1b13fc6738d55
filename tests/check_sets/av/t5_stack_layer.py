"""Encoder/decoder self-attention of our T5 v1.1 port (checkpoint compatible).

As in the original mesh code the logits are not divided by sqrt(d_kv): the
factor was folded into the initialisation of ``q``.
"""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Optional

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class T5StackConfig:
    d_model: int = 64
    d_kv: int = 16
    num_heads: int = 4
    num_buckets: int = 32
    max_distance: int = 128
    is_decoder: bool = False
    eps: float = 1e-6


class RMSLayerNorm(nn.Module):
    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        var = x.float().pow(2).mean(-1, keepdim=True)
        return self.weight * (x.float() * torch.rsqrt(var + self.eps)).to(x.dtype)


def bucket_of(relative: Tensor, bidirectional: bool, num_buckets: int, max_distance: int) -> Tensor:
    """relative = key position - query position."""
    out = torch.zeros_like(relative)
    n = -relative
    if bidirectional:
        num_buckets //= 2
        out = out + (n < 0).long() * num_buckets
        n = n.abs()
    else:
        n = n.clamp(min=0)
    exact = num_buckets // 2
    ratio = torch.log(n.clamp(min=1).float() / exact) / math.log(max_distance / exact)
    far = exact + (ratio * (num_buckets - exact)).long()
    far = far.clamp(max=num_buckets - 1)
    return out + torch.where(n < exact, n, far)


class T5SelfAttention(nn.Module):
    def __init__(self, cfg: T5StackConfig) -> None:
        super().__init__()
        self.cfg = cfg
        inner = cfg.num_heads * cfg.d_kv
        self.q = nn.Linear(cfg.d_model, inner, bias=False)
        self.k = nn.Linear(cfg.d_model, inner, bias=False)
        self.v = nn.Linear(cfg.d_model, inner, bias=False)
        self.o = nn.Linear(inner, cfg.d_model, bias=False)
        self.relative_attention_bias = nn.Embedding(cfg.num_buckets, cfg.num_heads)
        nn.init.normal_(self.q.weight, std=(cfg.d_model * cfg.d_kv) ** -0.5)

    def position_bias(self, qlen: int, klen: int, device: torch.device) -> Tensor:
        ctx = torch.arange(qlen, device=device)[:, None] + (klen - qlen)
        mem = torch.arange(klen, device=device)[None, :]
        b = bucket_of(mem - ctx, not self.cfg.is_decoder, self.cfg.num_buckets, self.cfg.max_distance)
        bias = self.relative_attention_bias(b).permute(2, 0, 1)[None]
        if self.cfg.is_decoder:
            bias = bias.masked_fill((mem > ctx)[None, None], torch.finfo(bias.dtype).min)
        return bias

    def _heads(self, x: Tensor) -> Tensor:
        b, l, _ = x.shape
        return x.view(b, l, self.cfg.num_heads, self.cfg.d_kv).transpose(1, 2)

    def forward(self, hidden: Tensor, attention_mask: Optional[Tensor] = None,
                past: Optional[tuple[Tensor, Tensor]] = None):
        """attention_mask: bool [batch, klen], True where there is a real token."""
        q, k, v = self._heads(self.q(hidden)), self._heads(self.k(hidden)), self._heads(self.v(hidden))
        if past is not None:
            k = torch.cat([past[0], k], dim=2)
            v = torch.cat([past[1], v], dim=2)
        scores = q @ k.transpose(-1, -2)
        scores = scores + self.position_bias(q.shape[2], k.shape[2], hidden.device)
        if attention_mask is not None:
            scores = scores.masked_fill(~attention_mask[:, None, None, :], torch.finfo(scores.dtype).min)
        weights = torch.softmax(scores.float(), dim=-1).to(v.dtype)
        ctx = (weights @ v).transpose(1, 2).reshape(hidden.shape[0], hidden.shape[1], -1)
        return self.o(ctx), (k, v)


class T5SelfLayer(nn.Module):
    def __init__(self, cfg: T5StackConfig) -> None:
        super().__init__()
        self.layer_norm = RMSLayerNorm(cfg.d_model, cfg.eps)
        self.SelfAttention = T5SelfAttention(cfg)

    def forward(self, x: Tensor, mask: Optional[Tensor] = None) -> Tensor:
        y, _ = self.SelfAttention(self.layer_norm(x), mask)
        return x + y

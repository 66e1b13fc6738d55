"""Attention layer of our in-house code completion model.

* grouped-query: n_heads query heads, n_kv_heads key/value heads. Query heads
  [0 .. g-1] read kv head 0, [g .. 2g-1] read kv head 1, and so on.
* rotary embedding in the original interleaved ("GPT-J") layout: channel pairs
  (0,1), (2,3), ... are rotated together.
* logits are soft-capped, cap * tanh(logits / cap), before masking.
* causal, with a concatenating KV cache. Keys are stored already rotated.
"""
from __future__ import annotations

import torch
from torch import nn


class KVCache:
    def __init__(self):
        self.k: torch.Tensor | None = None
        self.v: torch.Tensor | None = None

    @property
    def length(self) -> int:
        return 0 if self.k is None else self.k.shape[2]

    def append(self, k, v):
        self.k = k if self.k is None else torch.cat([self.k, k], dim=2)
        self.v = v if self.v is None else torch.cat([self.v, v], dim=2)
        return self.k, self.v


def rotate(x: torch.Tensor, pos: torch.Tensor, base: float) -> torch.Tensor:
    """x: (B, H, T, D) ; pos: (T,)"""
    half = x.shape[-1] // 2
    freq = base ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
    angle = pos.to(torch.float32)[:, None] * freq[None, :]         # T, D/2
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    even, odd = x[..., 0::2], x[..., 1::2]
    out = torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1)
    return out.flatten(-2)


class CompletionAttention(nn.Module):
    def __init__(self, dim: int = 64, n_heads: int = 8, n_kv_heads: int = 2,
                 softcap: float = 30.0, rope_base: float = 10000.0):
        super().__init__()
        assert n_heads % n_kv_heads == 0 and dim % n_heads == 0
        self.h, self.hkv, self.hd = n_heads, n_kv_heads, dim // n_heads
        self.softcap, self.rope_base = softcap, rope_base
        self.q_proj = nn.Linear(dim, self.h * self.hd, bias=False)
        self.k_proj = nn.Linear(dim, self.hkv * self.hd, bias=False)
        self.v_proj = nn.Linear(dim, self.hkv * self.hd, bias=False)
        self.o_proj = nn.Linear(self.h * self.hd, dim, bias=False)

    def forward(self, x: torch.Tensor, cache: KVCache | None = None) -> torch.Tensor:
        """x: (B, T, dim). With a cache, x holds only the new tokens."""
        B, T, _ = x.shape
        start = cache.length if cache is not None else 0
        pos = torch.arange(start, start + T, device=x.device)

        q = self.q_proj(x).view(B, T, self.h, self.hd).transpose(1, 2)
        k = self.k_proj(x).view(B, T, self.hkv, self.hd).transpose(1, 2)
        v = self.v_proj(x).view(B, T, self.hkv, self.hd).transpose(1, 2)
        q, k = rotate(q, pos, self.rope_base), rotate(k, pos, self.rope_base)
        if cache is not None:
            k, v = cache.append(k, v)

        g = self.h // self.hkv
        S = k.shape[2]
        q = q.view(B, self.hkv, g, T, self.hd)
        att = torch.einsum("bngtd,bnsd->bngts", q, k) / self.hd ** 0.5
        att = self.softcap * torch.tanh(att / self.softcap)
        future = torch.arange(S, device=x.device)[None, :] > pos[:, None]
        att = att.masked_fill(future, float("-inf"))
        att = torch.softmax(att.float(), dim=-1).to(v.dtype)

        y = torch.einsum("bngts,bnsd->bngtd", att, v)
        y = y.reshape(B, self.h, T, self.hd).transpose(1, 2).reshape(B, T, -1)
        return self.o_proj(y)

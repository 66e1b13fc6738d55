"""Decoder of our bedtime-story generator. Rotary positions, KV cache for sampling."""
from typing import Dict, Optional

import torch
import torch.nn as nn
import torch.nn.functional as F


class Rotary(nn.Module):
    def __init__(self, dim: int, max_len: int = 256, base: float = 10000.0):
        super().__init__()
        freq = 1.0 / (base ** (torch.arange(0, dim, 2).float() / dim))
        ang = torch.outer(torch.arange(max_len).float(), freq)
        self.register_buffer("cos", ang.cos().repeat(1, 2), persistent=False)
        self.register_buffer("sin", ang.sin().repeat(1, 2), persistent=False)

    def forward(self, x: torch.Tensor, start: int = 0) -> torch.Tensor:
        n = x.size(-2)
        c, s = self.cos[start:start + n], self.sin[start:start + n]
        a, b = x.chunk(2, dim=-1)
        return x * c + torch.cat((-b, a), dim=-1) * s


class RotaryAttention(nn.Module):
    """Causal. With a cache dict the keys and values of former calls are kept in it,
    and the result equals that of one call with the whole text."""

    def __init__(self, dim: int = 32, heads: int = 4):
        super().__init__()
        self.heads = heads
        self.to_qkv = nn.Linear(dim, dim * 3, bias=False)
        self.to_out = nn.Linear(dim, dim, bias=False)
        self.rotary = Rotary(dim // heads)

    def forward(self, x: torch.Tensor, cache: Optional[Dict[str, torch.Tensor]] = None) -> torch.Tensor:
        b, n, e = x.shape
        q, k, v = (t.reshape(b, n, self.heads, -1).transpose(1, 2) for t in self.to_qkv(x).chunk(3, dim=-1))
        past = cache["k"].size(2) if cache else 0
        q = self.rotary(q)
        k = self.rotary(k)
        if cache is not None:
            if past:
                k = torch.cat((cache["k"], k), dim=2)
                v = torch.cat((cache["v"], v), dim=2)
            cache["k"], cache["v"] = k, v
        keep = torch.ones(n, past + n, dtype=torch.bool, device=x.device).tril(past)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
        return self.to_out(y.transpose(1, 2).reshape(b, n, e))


class Decoder(nn.Module):
    def __init__(self, vocab: int = 64, dim: int = 32, depth: int = 2):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(RotaryAttention(dim) for _ in range(depth))
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids, caches=None):
        x = self.emb(ids)
        for i, l in enumerate(self.layers):
            x = x + l(x, caches[i] if caches else None)
        return self.head(x)

"""Decoder layer of our in-house code completion model (GPT-NeoX rotary layout).

prefill:  y = attn(prompt, cache=cache)
decode:   y = attn(next_token, cache=cache)      # repeated

Positions are absolute: token t of the whole sequence is rotated by angle t * theta.
"""
from typing import Optional, Tuple

import torch
import torch.nn as nn


class KVCache:
    def __init__(self) -> None:
        self.k: Optional[torch.Tensor] = None
        self.v: Optional[torch.Tensor] = None

    def __len__(self) -> int:
        return 0 if self.k is None else self.k.shape[2]

    def update(self, k: torch.Tensor, v: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        if self.k is not None:
            k = torch.cat((self.k, k), dim=2)
            v = torch.cat((self.v, v), dim=2)
        self.k, self.v = k, v
        return k, v


class Rotary(nn.Module):
    def __init__(self, dim: int, base: float = 10000.0) -> None:
        super().__init__()
        inv = base ** (-torch.arange(0, dim, 2, dtype=torch.float32) / dim)
        self.register_buffer("inv_freq", inv, persistent=False)

    def forward(self, start: int, end: int):
        t = torch.arange(start, end, device=self.inv_freq.device, dtype=torch.float32)
        ang = torch.outer(t, self.inv_freq)
        ang = torch.cat((ang, ang), dim=-1)
        return ang.cos(), ang.sin()


def rotate_half(x: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


class CompletionAttention(nn.Module):
    def __init__(self, dim: int = 32, n_heads: int = 4) -> None:
        super().__init__()
        self.n_heads, self.hd = n_heads, dim // n_heads
        self.q_proj = nn.Linear(dim, dim)
        self.k_proj = nn.Linear(dim, dim)
        self.v_proj = nn.Linear(dim, dim)
        self.o_proj = nn.Linear(dim, dim)
        self.rotary = Rotary(self.hd)

    def _heads(self, t: torch.Tensor) -> torch.Tensor:
        return t.view(t.shape[0], t.shape[1], self.n_heads, self.hd).transpose(1, 2)

    def forward(self, x: torch.Tensor, cache: Optional[KVCache] = None) -> torch.Tensor:
        b, n, _ = x.shape
        q, k, v = (self._heads(p(x)) for p in (self.q_proj, self.k_proj, self.v_proj))
        cos, sin = self.rotary(0, n)
        cos, sin = cos.to(x.dtype), sin.to(x.dtype)
        q = q * cos + rotate_half(q) * sin
        k = k * cos + rotate_half(k) * sin

        past = 0
        if cache is not None:
            past = len(cache)
            k, v = cache.update(k, v)

        w = q @ k.transpose(-1, -2) * self.hd ** -0.5
        total = past + n
        allowed = torch.ones(n, total, dtype=torch.bool, device=x.device).tril(past)
        w = w.masked_fill(~allowed, float("-inf")).softmax(dim=-1)
        return self.o_proj((w @ v).transpose(1, 2).reshape(b, n, -1))

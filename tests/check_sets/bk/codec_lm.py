"""Token LM over neural audio codec frames (EnCodec-like, 75 Hz), streaming."""
from typing import List, Optional, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F

KV = Tuple[torch.Tensor, torch.Tensor]


class Rotary(nn.Module):
    """Rotate-half RoPE (GPT-NeoX layout)."""

    def __init__(self, dim: int, base: float = 10_000.0, max_len: int = 2048):
        super().__init__()
        inv = 1.0 / base ** (torch.arange(0, dim, 2).float() / dim)
        t = torch.outer(torch.arange(max_len).float(), inv)
        t = torch.cat((t, t), dim=-1)
        self.register_buffer("cos", t.cos(), persistent=False)
        self.register_buffer("sin", t.sin(), persistent=False)

    def forward(self, x: torch.Tensor, offset: int = 0) -> torch.Tensor:
        n = x.size(-2)
        cos, sin = self.cos[offset : offset + n], self.sin[offset : offset + n]
        a, b = x.chunk(2, dim=-1)
        return x * cos + torch.cat((-b, a), dim=-1) * sin


class StreamingAttention(nn.Module):
    """Causal multi-head attention over frames.

    Feeding a sequence in pieces, with the cache handed on, gives the same result as
    feeding it at once. The cache holds rotated keys.
    """

    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.heads = heads
        self.to_qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.to_out = nn.Linear(dim, dim, bias=False)
        self.rotary = Rotary(dim // heads)

    def forward(self, x: torch.Tensor, cache: Optional[KV] = None) -> Tuple[torch.Tensor, KV]:
        B, T, C = x.shape
        q, k, v = self.to_qkv(x).view(B, T, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        past = 0
        if cache is not None:
            past = cache[0].size(2)
        q, k = self.rotary(q, past), self.rotary(k)
        if cache is not None:
            k, v = torch.cat((cache[0], k), dim=2), torch.cat((cache[1], v), dim=2)
        mask = torch.ones(T, past + T, dtype=torch.bool, device=x.device).tril(past)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.to_out(y.transpose(1, 2).reshape(B, T, C)), (k, v)


class CodecLM(nn.Module):
    def __init__(self, n_books: int = 4, card: int = 64, dim: int = 32, heads: int = 2, depth: int = 2):
        super().__init__()
        self.emb = nn.ModuleList(nn.Embedding(card + 1, dim) for _ in range(n_books))
        self.att = nn.ModuleList(StreamingAttention(dim, heads) for _ in range(depth))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, dim))
            for _ in range(depth)
        )
        self.heads = nn.ModuleList(nn.Linear(dim, card) for _ in range(n_books))

    def forward(self, codes: torch.Tensor, caches: Optional[List[KV]] = None):
        """codes [B, n_books, T] -> logits [B, n_books, T, card], caches"""
        x = sum(e(codes[:, i]) for i, e in enumerate(self.emb))
        new = []
        for i, (a, m) in enumerate(zip(self.att, self.mlp)):
            y, kv = a(x, None if caches is None else caches[i])
            x = x + y
            x = x + m(x)
            new.append(kv)
        return torch.stack([h(x) for h in self.heads], dim=1), new

    @torch.no_grad()
    def sample(self, codes: torch.Tensor, steps: int) -> torch.Tensor:
        logits, caches = self(codes)
        for _ in range(steps):
            nxt = logits[:, :, -1].softmax(-1).flatten(0, 1).multinomial(1).view(codes.size(0), -1, 1)
            codes = torch.cat((codes, nxt), dim=-1)
            logits, caches = self(nxt, caches)
        return codes

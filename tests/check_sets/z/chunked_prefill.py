"""Serving engine, toy size: long prompts are fed in chunks, then decoded token by token."""
from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F


class LayerCache:
    """Preallocated keys and values of one layer."""

    def __init__(self, max_batch: int, n_heads: int, max_seq: int, head_dim: int):
        self.k = torch.zeros(max_batch, n_heads, max_seq, head_dim)
        self.v = torch.zeros(max_batch, n_heads, max_seq, head_dim)

    def update(self, pos: int, k: torch.Tensor, v: torch.Tensor):
        b, _, t, _ = k.shape
        self.k[:b, :, pos:pos + t] = k
        self.v[:b, :, pos:pos + t] = v
        return self.k[:b, :, :pos + t], self.v[:b, :, :pos + t]


class CausalAttention(nn.Module):
    """x (B, T, D) holds the tokens at positions input_pos .. input_pos + T - 1.

    Every token sees all tokens up to and including itself, those in the cache too.
    """

    def __init__(self, dim: int, n_heads: int):
        super().__init__()
        self.n_heads, self.head_dim = n_heads, dim // n_heads
        self.wqkv = nn.Linear(dim, 3 * dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)

    def forward(self, x: torch.Tensor, input_pos: int = 0, cache: LayerCache | None = None):
        B, T, D = x.shape
        q, k, v = (t.view(B, T, self.n_heads, self.head_dim).transpose(1, 2) for t in self.wqkv(x).chunk(3, -1))
        if cache is not None:
            k, v = cache.update(input_pos, k, v)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=T > 1)
        return self.wo(y.transpose(1, 2).reshape(B, T, D))


class Block(nn.Module):
    def __init__(self, dim: int, n_heads: int):
        super().__init__()
        self.attention = CausalAttention(dim, n_heads)
        self.norm1, self.norm2 = nn.RMSNorm(dim), nn.RMSNorm(dim)
        self.w1, self.w2, self.w3 = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim), nn.Linear(dim, 2 * dim)

    def forward(self, x, input_pos=0, cache=None):
        x = x + self.attention(self.norm1(x), input_pos, cache)
        h = self.norm2(x)
        return x + self.w2(F.silu(self.w1(h)) * self.w3(h))


class Engine(nn.Module):
    def __init__(self, vocab: int = 97, dim: int = 32, n_heads: int = 4, depth: int = 2, max_seq: int = 64):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(max_seq, dim)
        self.blocks = nn.ModuleList(Block(dim, n_heads) for _ in range(depth))
        self.out = nn.Linear(dim, vocab, bias=False)
        self.shape = (n_heads, max_seq, dim // n_heads)

    def new_caches(self, batch: int) -> list[LayerCache]:
        return [LayerCache(batch, *self.shape) for _ in self.blocks]

    def forward(self, ids, input_pos: int = 0, caches=None):
        t = torch.arange(input_pos, input_pos + ids.shape[1], device=ids.device)
        x = self.emb(ids) + self.pos(t)
        for i, blk in enumerate(self.blocks):
            x = blk(x, input_pos, None if caches is None else caches[i])
        return self.out(x)

    @torch.no_grad()
    def serve(self, ids, new_tokens: int, chunk: int = 4):
        caches = self.new_caches(ids.shape[0])
        for s in range(0, ids.shape[1], chunk):
            logits = self(ids[:, s:s + chunk], s, caches)
        out = [logits[:, -1].argmax(-1, keepdim=True)]
        for i in range(new_tokens - 1):
            out.append(self(out[-1], ids.shape[1] + i, caches)[:, -1].argmax(-1, keepdim=True))
        return torch.cat(out, 1)

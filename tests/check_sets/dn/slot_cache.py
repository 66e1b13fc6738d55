"""Key/value slots for sliding-window decoding with chunks.

A token at absolute position p sees the positions p - window + 1 ... p, itself
included: `window` keys at most.  The cache keeps window + max_chunk - 1 slots,
which is the least that lets a chunk of max_chunk tokens be written before its
first token has read.  Slot = position modulo number of slots.

    cache = SlotCache(batch, heads, head_dim, window, max_chunk)
    layer = WindowedSelfAttention(dim, heads)
    y = layer(x, cache)           # x (batch, n, dim), n <= max_chunk

Calling the layer piece by piece gives the same numbers as one call over the
whole sequence with a cache that has room for it.
"""
import torch
import torch.nn.functional as F
from torch import nn


class SlotCache:
    def __init__(self, batch, heads, head_dim, window, max_chunk=1, dtype=torch.float32):
        self.window, self.max_chunk = window, max_chunk
        self.slots = window + max_chunk - 1
        self.k = torch.zeros(batch, heads, self.slots, head_dim, dtype=dtype)
        self.v = torch.zeros(batch, heads, self.slots, head_dim, dtype=dtype)
        self.pos = torch.full((self.slots,), -1, dtype=torch.long)     # -1: never written
        self.seen = 0

    def write(self, k, v):
        """k, v (batch, heads, n, head_dim); returns the absolute positions (n,)"""
        n = k.size(2)
        if n > self.max_chunk:
            raise ValueError(f"chunk of {n} tokens, at most {self.max_chunk} are allowed")
        p = torch.arange(self.seen, self.seen + n)
        slot = p % self.slots
        self.k[:, :, slot] = k
        self.v[:, :, slot] = v
        self.pos[slot] = p
        self.seen += n
        return p

    def readable(self, p):
        """(n, slots) bool, True = the token at position p[i] may read the slot"""
        age = p[:, None] - self.pos[None, :]
        return (self.pos >= 0)[None, :] & (age >= 0) & (age < self.window)


class WindowedSelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    @torch.no_grad()
    def forward(self, x, cache):
        B, n, C = x.shape
        qkv = self.qkv(x).view(B, n, 3, self.heads, C // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        p = cache.write(k, v)
        y = F.scaled_dot_product_attention(q, cache.k, cache.v, attn_mask=cache.readable(p))
        return self.out(y.transpose(1, 2).reshape(B, n, C))

"""Attention block with a preallocated key/value store, shaped for torch.compile.

The store never changes its size: (layers, B, Hkv, max_len, d).  New tokens are written at
the slots given by `pos`; a query at position p reads the slots 0..p and nothing else.

Rotary embedding: half-split pairs (i, i + d/2), base 10000, positions divided by
`rope_factor` (linear position interpolation).  Query head h reads KV head h // (H // Hkv).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SlotStore:
    def __init__(self, layers, batch, kv_heads, max_len, head_dim):
        shape = (layers, batch, kv_heads, max_len, head_dim)
        self.keys = torch.zeros(shape)
        self.vals = torch.zeros(shape)

    def write(self, layer, pos, k, v):
        """Write k, v (B, Hkv, T, d) at the slots pos (T,) and return the whole layer."""
        self.keys[layer].index_copy_(2, pos, k)
        self.vals[layer].index_copy_(2, pos, v)
        return self.keys[layer], self.vals[layer]


def turn(x, pos, factor):
    half = x.shape[-1] // 2
    inv = 10000.0 ** (-torch.arange(half, dtype=torch.float32) / half)
    ang = (pos.float() / factor)[:, None] * inv[None, :]
    c, s = ang.cos().to(x), ang.sin().to(x)
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * c - b * s, b * c + a * s), dim=-1)


class SlotAttention(nn.Module):
    def __init__(self, dim, heads, kv_heads, layer, rope_factor=4.0):
        super().__init__()
        self.h, self.hkv, self.d = heads, kv_heads, dim // heads
        self.layer, self.rope_factor = layer, rope_factor
        self.wq = nn.Linear(dim, heads * self.d, bias=False)
        self.wk = nn.Linear(dim, kv_heads * self.d, bias=False)
        self.wv = nn.Linear(dim, kv_heads * self.d, bias=False)
        self.wo = nn.Linear(heads * self.d, dim, bias=False)

    def forward(self, x, pos, store):
        """x (B, T, dim); pos (T,) int64, the absolute positions of these tokens, consecutive
        to what the store already holds.  The store is updated.  Returns (B, T, dim)."""
        b, t, _ = x.shape
        q = self.wq(x).view(b, t, self.h, self.d).transpose(1, 2)
        k = self.wk(x).view(b, t, self.hkv, self.d).transpose(1, 2)
        v = self.wv(x).view(b, t, self.hkv, self.d).transpose(1, 2)
        q = turn(q, pos, self.rope_factor)
        k = turn(k, pos, self.rope_factor)
        k, v = store.write(self.layer, pos, k, v)
        slots = torch.arange(k.shape[2])
        readable = slots[None, :] <= pos[:, None]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=readable, enable_gqa=True)
        return self.wo(y.transpose(1, 2).reshape(b, t, self.h * self.d))

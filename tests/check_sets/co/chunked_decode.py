"""Decoder attention with a growing KV cache.

Long prompts are fed in several chunks to bound the memory; afterwards tokens are generated one at a time.
Feeding [0:n] at once or in pieces has to give the same outputs.
"""
from dataclasses import dataclass
from typing import Optional

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class KVCache:
    k: Optional[torch.Tensor] = None   # (B, H, past, hd)
    v: Optional[torch.Tensor] = None

    def __len__(self):
        return 0 if self.k is None else self.k.size(2)

    def update(self, k, v):
        if self.k is not None:
            k = torch.cat([self.k, k], dim=2)
            v = torch.cat([self.v, v], dim=2)
        self.k, self.v = k, v
        return k, v


class CachedCausalAttention(nn.Module):
    def __init__(self, dim: int = 32, n_heads: int = 4):
        super().__init__()
        self.n_heads, self.hd = n_heads, dim // n_heads
        self.wqkv = nn.Linear(dim, 3 * dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)

    def forward(self, x, cache: Optional[KVCache] = None):
        """x (B, T, dim): the T newest tokens; cache holds everything before them."""
        B, T, C = x.shape
        q, k, v = self.wqkv(x).split(C, dim=-1)
        q = q.view(B, T, self.n_heads, self.hd).transpose(1, 2)
        k = k.view(B, T, self.n_heads, self.hd).transpose(1, 2)
        v = v.view(B, T, self.n_heads, self.hd).transpose(1, 2)
        if cache is not None:
            k, v = cache.update(k, v)
        # a single new token sees everything, no mask needed
        y = F.scaled_dot_product_attention(q, k, v, is_causal=T > 1)
        return self.wo(y.transpose(1, 2).reshape(B, T, C))


@torch.no_grad()
def prefill(attn, x, chunk=16):
    cache, outs = KVCache(), []
    for part in x.split(chunk, dim=1):
        outs.append(attn(part, cache))
    return torch.cat(outs, dim=1), cache

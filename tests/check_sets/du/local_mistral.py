"""Sliding window variant of my decoder attention, for contexts of 32k tokens.

`window` counts the token itself (Hugging Face / Mistral convention): with window = 4 the token
at position 10 reads the positions 7, 8, 9 and 10.  With window >= T it is the ordinary causal
attention.  The mask is made once per length and kept.
"""
from functools import lru_cache

import torch
from torch import nn
import torch.nn.functional as F


@lru_cache(maxsize=8)
def band(T, window):
    """(T, T) bool, True = may be read."""
    full = torch.ones(T, T, dtype=torch.bool)
    return full.tril(0) & full.triu(-window)


class LocalAttention(nn.Module):
    """x (B, T, dim) -> (B, T, dim), grouped kv heads, head h reads kv head h // (H // Hkv)."""

    def __init__(self, dim=128, H=8, Hkv=2, window=4096):
        super().__init__()
        self.H, self.Hkv, self.window = H, Hkv, window
        self.hd = dim // H
        self.q_proj = nn.Linear(dim, H * self.hd, bias=False)
        self.k_proj = nn.Linear(dim, Hkv * self.hd, bias=False)
        self.v_proj = nn.Linear(dim, Hkv * self.hd, bias=False)
        self.o_proj = nn.Linear(H * self.hd, dim, bias=False)

    def forward(self, x):
        B, T, _ = x.shape
        q = self.q_proj(x).view(B, T, self.H, self.hd).transpose(1, 2)
        k = self.k_proj(x).view(B, T, self.Hkv, self.hd).transpose(1, 2)
        v = self.v_proj(x).view(B, T, self.Hkv, self.hd).transpose(1, 2)
        k = k.repeat_interleave(self.H // self.Hkv, dim=1)
        v = v.repeat_interleave(self.H // self.Hkv, dim=1)
        m = band(T, self.window).to(x.device)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=m)
        return self.o_proj(y.transpose(1, 2).reshape(B, T, -1))

"""Decoder attention with a growing cache for our chat demo."""
import torch
from torch import nn
import torch.nn.functional as F


class KVCache:
    """Keys and values (B, H, S, d) of all tokens so far."""

    def __init__(self):
        self.k = self.v = None

    def update(self, k, v):
        self.k = k if self.k is None else torch.cat([self.k, k], dim=2)
        self.v = v if self.v is None else torch.cat([self.v, v], dim=2)
        return self.k, self.v


class CachedAttention(nn.Module):
    """x (B, T, dim): the next T tokens of every dialogue, T >= 1. cache: KVCache or None.

    A user turn arrives as one chunk of several tokens, after which the answer is made token by
    token. Each token attends to everything in the cache, to the tokens of its chunk before it and
    to itself: feeding a text in chunks gives the same outputs as feeding it at once.
    """

    def __init__(self, dim=32, n_heads=4):
        super().__init__()
        self.n_heads = n_heads
        self.to_qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.to_out = nn.Linear(dim, dim, bias=False)

    def forward(self, x, cache=None):
        B, T, D = x.shape
        qkv = self.to_qkv(x).view(B, T, 3, self.n_heads, D // self.n_heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        if cache is not None:
            k, v = cache.update(k, v)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=T > 1)
        return self.to_out(out.transpose(1, 2).reshape(B, T, D))

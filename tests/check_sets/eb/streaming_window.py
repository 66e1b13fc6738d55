"""Streaming sampler with a fixed memory budget (gist: "chat forever on a laptop").

The layer keeps only the last W keys and values.  A token attends to W tokens in all: itself and
the W-1 before it.  `forward` handles a whole prompt at once, `step` one token with the cache;
both follow that rule and agree.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class WinLayer(nn.Module):
    def __init__(self, dim, heads, W):
        super().__init__()
        self.h, self.W = heads, W
        self.to_qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def _qkv(self, x):
        B, L, D = x.shape
        return [t.view(B, L, self.h, D // self.h).transpose(1, 2) for t in self.to_qkv(x).chunk(3, -1)]

    def forward(self, x):
        """x [B, L, dim] -> [B, L, dim]"""
        q, k, v = self._qkv(x)
        t = torch.arange(x.size(1), device=x.device)
        back = t[:, None] - t[None, :]
        ok = (back >= 0) & (back <= self.W)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=ok)
        return self.proj(y.transpose(1, 2).flatten(2))

    def step(self, x, cache=None):
        """x [B, 1, dim]; cache = (k, v) of earlier tokens or None -> ([B, 1, dim], new cache)"""
        q, k, v = self._qkv(x)
        if cache is not None:
            k = torch.cat([cache[0], k], 2)
            v = torch.cat([cache[1], v], 2)
        k, v = k[:, :, -self.W:], v[:, :, -self.W:]
        y = F.scaled_dot_product_attention(q, k, v)
        return self.proj(y.transpose(1, 2).flatten(2)), (k, v)

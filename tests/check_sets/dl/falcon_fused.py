"""Falcon-40B style fused projection with grouped KV heads and a tuple cache.

The rows of `query_key_value` are laid out group by group, as in the released weights:
for every KV head g first its G query heads, then its key, then its value, i.e. the output
is (Hkv, G + 2, d).  The module's query heads in order are (group 0: q0..qG-1), (group 1: ...).
Positions are handled elsewhere.
"""
import math

import torch
from torch import nn


class FalconMix(nn.Module):
    def __init__(self, hidden, heads, kv_heads):
        super().__init__()
        self.heads, self.kv = heads, kv_heads
        self.g = heads // kv_heads
        self.d = hidden // heads
        self.query_key_value = nn.Linear(hidden, (heads + 2 * kv_heads) * self.d, bias=False)
        self.dense = nn.Linear(hidden, hidden, bias=False)

    def unpack(self, fused):
        """(B, T, (H + 2 Hkv) d) -> q (B, T, Hkv, G, d), k and v (B, T, Hkv, d)"""
        b, t, _ = fused.shape
        q, k, v = fused.split([self.heads * self.d, self.kv * self.d, self.kv * self.d], dim=-1)
        q = q.reshape(b, t, self.kv, self.g, self.d)
        return q, k.reshape(b, t, self.kv, self.d), v.reshape(b, t, self.kv, self.d)

    def forward(self, x, past=None):
        """x (B, T, hidden), tokens behind past = (k, v), each (B, P, Hkv, d), or None.
        Causal softmax(q k^T / sqrt(d)) v, d the size of one head.
        Returns (B, T, hidden) and (k, v) with the new tokens appended."""
        b, t, hidden = x.shape
        q, k, v = self.unpack(self.query_key_value(x))
        if past is not None:
            k = torch.cat([past[0], k], dim=1)
            v = torch.cat([past[1], v], dim=1)
        n = k.shape[1]
        att = torch.einsum("btkgd,bnkd->bkgtn", q, k) / math.sqrt(hidden)
        hide = torch.arange(n)[None, :] > torch.arange(n - t, n)[:, None]
        att = att.masked_fill(hide, float("-inf")).softmax(dim=-1)
        y = torch.einsum("bkgtn,bnkd->btkgd", att, v)
        return self.dense(y.reshape(b, t, hidden)), (k, v)

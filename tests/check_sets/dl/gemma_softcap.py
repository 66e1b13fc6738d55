"""Gemma-2-like attention with logit soft-capping and a static cache, for a tiny model.

logits = cap * tanh(q.k / sqrt(d) / cap).  The cap bounds the logits of the tokens that may be
seen; slots that may not be seen have weight zero.
"""
import torch
import torch.nn as nn


class CappedAttention(nn.Module):
    def __init__(self, dim, heads, max_len, cap=3.0):
        super().__init__()
        self.heads, self.cap = heads, cap
        self.d = dim // heads
        self.q_proj = nn.Linear(dim, dim, bias=False)
        self.k_proj = nn.Linear(dim, dim, bias=False)
        self.v_proj = nn.Linear(dim, dim, bias=False)
        self.o_proj = nn.Linear(dim, dim, bias=False)
        self.max_len = max_len

    def new_cache(self, batch):
        z = torch.zeros(2, batch, self.heads, self.max_len, self.d)
        return {"kv": z, "used": 0}

    def forward(self, x, cache):
        """x (B, T, dim): the tokens at positions used .. used + T - 1 (cache["used"] is moved
        on).  A token sees the filled slots up to its own position.  Returns (B, T, dim)."""
        b, t, dim = x.shape
        lo = cache["used"]
        hi = lo + t
        q = self.q_proj(x).view(b, t, self.heads, self.d).transpose(1, 2)
        cache["kv"][0, :, :, lo:hi] = self.k_proj(x).view(b, t, self.heads, self.d).transpose(1, 2)
        cache["kv"][1, :, :, lo:hi] = self.v_proj(x).view(b, t, self.heads, self.d).transpose(1, 2)
        cache["used"] = hi
        keys, vals = cache["kv"]
        logits = torch.matmul(q, keys.transpose(2, 3)) * self.d ** -0.5
        slot = torch.arange(self.max_len)
        unseen = slot[None, :] > torch.arange(lo, hi)[:, None]
        logits = logits.masked_fill(unseen, float("-inf"))
        logits = self.cap * torch.tanh(logits / self.cap)
        weights = torch.softmax(logits, dim=-1)
        y = torch.matmul(weights, vals)
        return self.o_proj(y.transpose(1, 2).reshape(b, t, dim))

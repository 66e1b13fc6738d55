"""Attention layer in the manner of gpt-oss, with a ring cache for local layers.

* grouped query heads (query head h uses kv head h // group)
* a learnt sink logit per query head: it takes part in the softmax and its
  share of the probability is thrown away
* even layers are local: a token sees the last ``window`` tokens, itself
  included; odd layers are global
"""
import torch
from torch import nn


class RingCache:
    """Keeps the last `cap` tokens together with their absolute positions."""

    def __init__(self, cap=None):
        self.cap, self.seen = cap, 0
        self.k = self.v = self.pos = None

    def push(self, k, v):
        t = k.shape[1]
        pos = torch.arange(self.seen, self.seen + t)
        if self.k is not None:
            k, v = torch.cat([self.k, k], 1), torch.cat([self.v, v], 1)
            pos = torch.cat([self.pos, pos])
        self.seen += t
        full = (k, v, pos)
        keep = len(pos) if self.cap is None else min(self.cap, len(pos))
        self.k, self.v, self.pos = k[:, -keep:], v[:, -keep:], pos[-keep:]
        return full


class SinkAttention(nn.Module):
    def __init__(self, layer_idx, width=32, heads=4, kv_heads=2, head_dim=8, window=4):
        super().__init__()
        self.window = window if layer_idx % 2 == 0 else None
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, head_dim
        self.q_proj = nn.Linear(width, heads * head_dim)
        self.k_proj = nn.Linear(width, kv_heads * head_dim)
        self.v_proj = nn.Linear(width, kv_heads * head_dim)
        self.o_proj = nn.Linear(heads * head_dim, width)
        self.sinks = nn.Parameter(torch.randn(heads))

    def make_cache(self):
        # window - 1 old tokens are enough for the next one
        return RingCache(None if self.window is None else self.window)

    def forward(self, x, cache=None):
        b, t, _ = x.shape
        g = self.heads // self.kv_heads
        q = self.q_proj(x).view(b, t, self.kv_heads, g, self.head_dim)
        k = self.k_proj(x).view(b, t, self.kv_heads, self.head_dim)
        v = self.v_proj(x).view(b, t, self.kv_heads, self.head_dim)
        if cache is None:
            cache = RingCache()
        first = cache.seen
        k, v, k_pos = cache.push(k, v)
        q_pos = torch.arange(first, first + t)

        s = torch.einsum("btngd,bsnd->bngts", q, k) * self.head_dim**-0.5
        gap = q_pos[:, None] - k_pos[None, :]
        ok = gap >= 0
        if self.window is not None:
            ok &= gap < self.window
        s = s.masked_fill(~ok, float("-inf"))
        sink = self.sinks.view(1, self.kv_heads, g, 1, 1).expand(b, -1, -1, t, 1)
        p = torch.cat([s, sink], dim=-1).softmax(dim=-1)[..., :-1]
        y = torch.einsum("bngts,bsnd->btngd", p, v)
        return self.o_proj(y.reshape(b, t, -1))


class Stack(nn.Module):
    def __init__(self, layers=2, width=32):
        super().__init__()
        self.layers = nn.ModuleList(SinkAttention(i, width) for i in range(layers))
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(layers))

    def caches(self):
        return [l.make_cache() for l in self.layers]

    def forward(self, x, caches=None):
        caches = caches or [None] * len(self.layers)
        for l, n, c in zip(self.layers, self.norms, caches):
            x = x + l(n(x), c)
        return x

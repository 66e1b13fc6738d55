"""LLaMA block with a sliding cache: only the last `window` keys and values are kept.

Position is counted over the whole conversation, however long, and a cached key stays
rotated by the position at which it came in.
"""
from types import SimpleNamespace
from typing import Optional

import torch
import torch.nn as nn
import torch.nn.functional as F


def tiny(**kw):
    d = dict(vocab=80, dim=32, n_heads=4, n_kv_heads=2, window=8, layers=2, base=1e4)
    d.update(kw)
    return SimpleNamespace(**d)


def rotate_half(x):
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((-x2, x1), dim=-1)


class Rotary(nn.Module):
    def __init__(self, dim, base):
        super().__init__()
        self.register_buffer("inv_freq", 1.0 / (base ** (torch.arange(0, dim, 2).float() / dim)), persistent=False)

    def forward(self, x, offset):
        t = torch.arange(offset, offset + x.size(-2), device=x.device).float()
        emb = torch.outer(t, self.inv_freq).repeat(1, 2)
        return x * emb.cos() + rotate_half(x) * emb.sin()


class SlidingKV:
    def __init__(self, window):
        self.window = window
        self.k: Optional[torch.Tensor] = None
        self.v: Optional[torch.Tensor] = None

    def __len__(self):
        return 0 if self.k is None else self.k.size(2)

    def append(self, k, v):
        """Returns all keys and values for this call and keeps the last window - 1 of them."""
        if self.k is not None:
            k, v = torch.cat((self.k, k), 2), torch.cat((self.v, v), 2)
        keep = self.window - 1
        self.k, self.v = k[:, :, -keep:], v[:, :, -keep:]
        return k, v


class Attention(nn.Module):
    """Each token sees itself and the window - 1 tokens before it."""

    def __init__(self, a):
        super().__init__()
        self.h, self.kv, self.hd, self.window = a.n_heads, a.n_kv_heads, a.dim // a.n_heads, a.window
        self.wq = nn.Linear(a.dim, self.h * self.hd, bias=False)
        self.wk = nn.Linear(a.dim, self.kv * self.hd, bias=False)
        self.wv = nn.Linear(a.dim, self.kv * self.hd, bias=False)
        self.wo = nn.Linear(self.h * self.hd, a.dim, bias=False)
        self.rotary = Rotary(self.hd, a.base)

    def forward(self, x, cache: Optional[SlidingKV] = None):
        B, T, _ = x.shape
        q = self.wq(x).view(B, T, self.h, self.hd).transpose(1, 2)
        k = self.wk(x).view(B, T, self.kv, self.hd).transpose(1, 2)
        v = self.wv(x).view(B, T, self.kv, self.hd).transpose(1, 2)
        offset = 0 if cache is None else len(cache)
        q, k = self.rotary(q, offset), self.rotary(k, offset)
        if cache is not None:
            k, v = cache.append(k, v)
        S = k.size(2)
        qi = torch.arange(S - T, S, device=x.device)[:, None]
        kj = torch.arange(S, device=x.device)[None, :]
        mask = (kj <= qi) & (kj > qi - self.window)
        k = k.repeat_interleave(self.h // self.kv, dim=1)
        v = v.repeat_interleave(self.h // self.kv, dim=1)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.wo(y.transpose(1, 2).reshape(B, T, -1))


class SlidingLlama(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.a = a
        self.emb = nn.Embedding(a.vocab, a.dim)
        self.att = nn.ModuleList(Attention(a) for _ in range(a.layers))
        self.n1 = nn.ModuleList(nn.RMSNorm(a.dim) for _ in range(a.layers))
        self.n2 = nn.ModuleList(nn.RMSNorm(a.dim) for _ in range(a.layers))
        self.ff = nn.ModuleList(nn.Sequential(nn.Linear(a.dim, 4 * a.dim), nn.SiLU(), nn.Linear(4 * a.dim, a.dim)) for _ in range(a.layers))
        self.lm_head = nn.Linear(a.dim, a.vocab, bias=False)

    def new_cache(self):
        return [SlidingKV(self.a.window) for _ in range(self.a.layers)]

    def forward(self, ids, caches=None):
        x = self.emb(ids)
        for i in range(self.a.layers):
            x = x + self.att[i](self.n1[i](x), None if caches is None else caches[i])
            x = x + self.ff[i](self.n2[i](x))
        return self.lm_head(x)

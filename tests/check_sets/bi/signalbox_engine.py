"""
signalbox_engine: next-event model of an interlocking, one process per signal box.

Static key/value store (no reallocation while trains run).  Grouped queries, rotary
positions (half split), and a sliding window of ``horizon`` events: an event sees itself
and the ``horizon - 1`` events before it.
"""
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class BoxConfig:
    width: int = 64
    heads: int = 8
    kv_heads: int = 2
    horizon: int = 6
    capacity: int = 128


class Store:
    """Pre-allocated keys and values, (B, kv_heads, capacity, d)."""

    def __init__(self, cfg, batch, dtype=torch.float32):
        d = cfg.width // cfg.heads
        self.k = torch.zeros(batch, cfg.kv_heads, cfg.capacity, d, dtype=dtype)
        self.v = torch.zeros_like(self.k)
        self.used = 0

    def put(self, k, v):
        a, b = self.used, self.used + k.shape[2]
        if b > self.k.shape[2]:
            raise RuntimeError("event store is full")
        self.k[:, :, a:b] = k
        self.v[:, :, a:b] = v
        self.used = b
        return self.k[:, :, :b], self.v[:, :, :b]


def rope(x, pos):
    half = x.shape[-1] // 2
    freq = torch.pow(10000.0, -torch.arange(half) / half).to(x)
    ang = pos.to(x)[:, None] * freq
    cos, sin = torch.cat([ang.cos()] * 2, -1), torch.cat([ang.sin()] * 2, -1)
    rot = torch.cat([-x[..., half:], x[..., :half]], -1)
    return x * cos + rot * sin


class EventAttention(nn.Module):
    def __init__(self, cfg: BoxConfig):
        super().__init__()
        self.cfg = cfg
        self.d = cfg.width // cfg.heads
        self.q = nn.Linear(cfg.width, cfg.heads * self.d, bias=False)
        self.k = nn.Linear(cfg.width, cfg.kv_heads * self.d, bias=False)
        self.v = nn.Linear(cfg.width, cfg.kv_heads * self.d, bias=False)
        self.o = nn.Linear(cfg.heads * self.d, cfg.width, bias=False)

    def forward(self, x, store=None):
        B, n, _ = x.shape
        first = store.used if store is not None else 0
        where = torch.arange(first, first + n)
        q = rope(self.q(x).view(B, n, -1, self.d).transpose(1, 2), where)
        k = rope(self.k(x).view(B, n, -1, self.d).transpose(1, 2), where)
        v = self.v(x).view(B, n, -1, self.d).transpose(1, 2)
        if store is not None:
            k, v = store.put(k, v)
        g = self.cfg.heads // self.cfg.kv_heads
        k, v = k.repeat_interleave(g, dim=1), v.repeat_interleave(g, dim=1)

        age = where[:, None] - torch.arange(k.shape[2])[None, :]
        ok = (age >= 0) & (age < self.cfg.horizon)
        s = (q @ k.transpose(-2, -1)) * self.d ** -0.5
        p = s.masked_fill(~ok, float("-inf")).softmax(dim=-1)
        return self.o((p @ v).transpose(1, 2).reshape(B, n, -1))


class SignalBox(nn.Module):
    def __init__(self, cfg, kinds=40):
        super().__init__()
        self.cfg = cfg
        self.emb = nn.Embedding(kinds, cfg.width)
        self.att = EventAttention(cfg)
        self.norm = nn.RMSNorm(cfg.width)

    def forward(self, events, store=None):
        h = self.emb(events)
        h = h + self.att(self.norm(h), store)
        return h @ self.emb.weight.T

    def open(self, batch):
        return Store(self.cfg, batch)

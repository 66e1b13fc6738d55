"""Decoder with attention sinks: every head owns a learned logit that takes part in the softmax
and has no value, so that a head may attend to nothing at all."""
from dataclasses import dataclass
from typing import Optional

import torch
from torch import nn


@dataclass
class SinkConfig:
    hidden: int = 64
    heads: int = 8
    kv_heads: int = 2
    head_dim: int = 16
    sliding_window: int = 0          # 0: full; n: the token itself and n - 1 before it
    theta: float = 150000.0
    experts: int = 4
    top_k: int = 2


def rotary(x, offset, theta):
    """x [..., L, d], halves"""
    d, L = x.shape[-1], x.shape[-2]
    inv = theta ** (-torch.arange(0, d, 2, device=x.device) / d)
    ang = torch.arange(offset, offset + L, device=x.device)[:, None] * inv
    x1, x2 = x.chunk(2, -1)
    return torch.cat((x1 * ang.cos() - x2 * ang.sin(), x2 * ang.cos() + x1 * ang.sin()), -1).to(x.dtype)


def sink_sdpa(q, k, v, sinks, scale, window=0):
    """q [B, Hkv, G, Lq, d]; k, v [B, Hkv, Lk, d]; sinks [Hkv * G]. Causal, lower right."""
    B, Hkv, G, Lq, d = q.shape
    Lk = k.shape[2]
    qk = torch.einsum("bhgqd,bhkd->bhgqk", q, k) * scale
    i = torch.arange(Lk - Lq, Lk, device=q.device)[:, None]
    j = torch.arange(Lk, device=q.device)[None, :]
    hide = j > i
    if window > 0:
        hide = hide | (j <= i - window)
    qk = qk.masked_fill(hide, float("-inf"))
    s = sinks.view(1, Hkv, G, 1, 1).expand(B, -1, -1, Lq, -1)
    w = torch.cat([qk, s.to(qk.dtype)], dim=-1).softmax(dim=-1)
    w = w[..., 1:]
    return torch.einsum("bhgqk,bhkd->bqhgd", w, v).reshape(B, Lq, Hkv * G * d)


class SinkAttention(nn.Module):
    def __init__(self, cfg: SinkConfig):
        super().__init__()
        self.cfg = cfg
        self.norm = nn.RMSNorm(cfg.hidden)
        self.qkv = nn.Linear(cfg.hidden, (cfg.heads + 2 * cfg.kv_heads) * cfg.head_dim)
        self.sinks = nn.Parameter(torch.zeros(cfg.heads))
        self.out = nn.Linear(cfg.heads * cfg.head_dim, cfg.hidden)

    def forward(self, x, past: Optional[dict] = None):
        c = self.cfg
        B, L, _ = x.shape
        t = self.qkv(self.norm(x))
        q, k, v = t.split([c.heads * c.head_dim, c.kv_heads * c.head_dim, c.kv_heads * c.head_dim], -1)
        q = q.view(B, L, c.kv_heads, c.heads // c.kv_heads, c.head_dim).permute(0, 2, 3, 1, 4)
        k = k.view(B, L, c.kv_heads, c.head_dim).transpose(1, 2)
        v = v.view(B, L, c.kv_heads, c.head_dim).transpose(1, 2)
        offset = past["k"].shape[2] if past else 0
        q, k = rotary(q, offset, c.theta), rotary(k, offset, c.theta)
        if past is not None:
            if past:
                k, v = torch.cat([past["k"], k], 2), torch.cat([past["v"], v], 2)
            past["k"], past["v"] = k, v
        return x + self.out(sink_sdpa(q, k, v, self.sinks, c.head_dim ** -0.5, c.sliding_window))


class Experts(nn.Module):
    def __init__(self, cfg: SinkConfig):
        super().__init__()
        self.k = cfg.top_k
        self.norm = nn.RMSNorm(cfg.hidden)
        self.gate = nn.Linear(cfg.hidden, cfg.experts)
        self.w1 = nn.Parameter(torch.randn(cfg.experts, cfg.hidden, 4 * cfg.hidden) * 0.05)
        self.w2 = nn.Parameter(torch.randn(cfg.experts, 2 * cfg.hidden, cfg.hidden) * 0.05)

    def forward(self, x):
        t = self.norm(x)
        val, idx = self.gate(t).topk(self.k, dim=-1)
        h = torch.einsum("bld,blkdf->blkf", t, self.w1[idx])
        glu, lin = h.chunk(2, dim=-1)
        h = glu * torch.sigmoid(1.702 * glu) * (lin + 1)
        y = torch.einsum("blkf,blkfd->blkd", h, self.w2[idx])
        return x + (y * val.softmax(-1).unsqueeze(-1)).sum(2)


class SinkDecoder(nn.Module):
    """Layers alternate between a sliding window and full attention."""

    def __init__(self, vocab=200, layers=2, window=8, **kw):
        super().__init__()
        self.emb = nn.Embedding(vocab, SinkConfig(**kw).hidden)
        cfgs = [SinkConfig(sliding_window=window if i % 2 == 0 else 0, **kw) for i in range(layers)]
        self.attn = nn.ModuleList(SinkAttention(c) for c in cfgs)
        self.mlp = nn.ModuleList(Experts(c) for c in cfgs)

    def forward(self, ids, past=None):
        x = self.emb(ids)
        for i, (a, m) in enumerate(zip(self.attn, self.mlp)):
            x = m(a(x, None if past is None else past[i]))
        return x @ self.emb.weight.T

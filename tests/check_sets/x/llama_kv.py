import math

import torch
from torch import nn


class LlamaConfig:
    def __init__(self, dim=64, n_heads=4, n_kv_heads=2, max_seq_len=64, max_batch=4, theta=10000.0):
        self.dim, self.n_heads, self.n_kv_heads = dim, n_heads, n_kv_heads
        self.max_seq_len, self.max_batch, self.theta = max_seq_len, max_batch, theta


def precompute(dim, end, theta):
    freqs = 1.0 / (theta ** (torch.arange(0, dim, 2)[: dim // 2].float() / dim))
    t = torch.arange(end).float()
    freqs = torch.outer(t, freqs)
    return freqs.cos(), freqs.sin()


def apply_rotary(x, cos, sin):
    # x (b, t, h, d), neighbouring pairs
    xr, xi = x.reshape(*x.shape[:-1], -1, 2).unbind(-1)
    cos, sin = cos[None, :, None].to(x.dtype), sin[None, :, None].to(x.dtype)
    return torch.stack((xr * cos - xi * sin, xr * sin + xi * cos), -1).flatten(3)


class CachedAttention(nn.Module):
    """LLaMA attention with a KV cache owned by the caller.

    forward(x, cache): x (b, t, dim) are the new tokens, cache is None or (k, v), each (b, past, n_kv_heads, head_dim).
    Returns the output (b, t, dim) and the cache that includes the new tokens.
    """

    def __init__(self, cfg: LlamaConfig):
        super().__init__()
        self.n_heads, self.n_kv = cfg.n_heads, cfg.n_kv_heads
        self.hd = cfg.dim // cfg.n_heads
        self.wq = nn.Linear(cfg.dim, cfg.n_heads * self.hd, bias=False)
        self.wk = nn.Linear(cfg.dim, cfg.n_kv_heads * self.hd, bias=False)
        self.wv = nn.Linear(cfg.dim, cfg.n_kv_heads * self.hd, bias=False)
        self.wo = nn.Linear(cfg.n_heads * self.hd, cfg.dim, bias=False)
        cos, sin = precompute(self.hd, cfg.max_seq_len, cfg.theta)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def forward(self, x, cache=None):
        b, t, _ = x.shape
        q = self.wq(x).view(b, t, self.n_heads, self.hd)
        k = self.wk(x).view(b, t, self.n_kv, self.hd)
        v = self.wv(x).view(b, t, self.n_kv, self.hd)
        cos, sin = self.cos[:t], self.sin[:t]
        q, k = apply_rotary(q, cos, sin), apply_rotary(k, cos, sin)
        if cache is not None:
            k = torch.cat([cache[0], k], dim=1)
            v = torch.cat([cache[1], v], dim=1)
        new_cache = (k, v)
        s = k.shape[1]
        rep = self.n_heads // self.n_kv
        kk = k.repeat_interleave(rep, dim=2).transpose(1, 2)
        vv = v.repeat_interleave(rep, dim=2).transpose(1, 2)
        scores = q.transpose(1, 2) @ kk.transpose(2, 3) / math.sqrt(self.hd)
        visible = torch.ones(t, s, dtype=torch.bool, device=x.device).tril(diagonal=s - t)
        scores = scores.masked_fill(~visible, float("-inf"))
        out = scores.softmax(-1) @ vv
        return self.wo(out.transpose(1, 2).reshape(b, t, -1)), new_cache

"""Multi-head latent attention (DeepSeek-V2), naive and absorbed, with the compressed cache.

The absorbed variant never forms keys and values per head; it must agree with the naive one.
"""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class MLAConfig:
    dim: int = 64
    n_heads: int = 4
    kv_rank: int = 24
    nope: int = 16
    rope: int = 8
    v_dim: int = 12
    theta: float = 10000.0
    max_len: int = 128


def freqs_cis(cfg):
    f = 1.0 / cfg.theta ** (torch.arange(0, cfg.rope, 2).float() / cfg.rope)
    ang = torch.outer(torch.arange(cfg.max_len).float(), f)
    return torch.polar(torch.ones_like(ang), ang)


def rotate(x, cis):
    """x [b, t, h, d] with neighbouring pairs (0,1), (2,3), ..."""
    y = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2)) * cis[None, :, None]
    return torch.view_as_real(y).flatten(3).type_as(x)


class MLA(nn.Module):
    def __init__(self, cfg: MLAConfig):
        super().__init__()
        self.c = cfg
        h = cfg.n_heads
        self.wq = nn.Linear(cfg.dim, h * (cfg.nope + cfg.rope), bias=False)
        self.wkv_a = nn.Linear(cfg.dim, cfg.kv_rank + cfg.rope, bias=False)
        self.kv_norm = nn.RMSNorm(cfg.kv_rank)
        self.wkv_b = nn.Linear(cfg.kv_rank, h * (cfg.nope + cfg.v_dim), bias=False)
        self.wo = nn.Linear(h * cfg.v_dim, cfg.dim, bias=False)
        self.scale = (cfg.nope + cfg.rope) ** -0.5
        self.register_buffer("cis", freqs_cis(cfg), persistent=False)

    def forward(self, x, cache=None, absorbed=False):
        """x [b, t, dim]; cache = (c_kv [b, s, rank], k_pe [b, s, rope]) of earlier tokens. Causal."""
        c = self.c
        b, t, _ = x.shape
        start = 0 if cache is None else cache[0].shape[1]
        cis = self.cis[start:start + t]
        q = self.wq(x).view(b, t, c.n_heads, c.nope + c.rope)
        q_nope, q_pe = q.split([c.nope, c.rope], -1)
        q_pe = rotate(q_pe, cis)
        lat, k_pe = self.wkv_a(x).split([c.kv_rank, c.rope], -1)
        k_pe = rotate(k_pe[:, :, None], cis)[:, :, 0]
        lat = self.kv_norm(lat)
        if cache is not None:
            lat = torch.cat([cache[0], lat], 1)
            k_pe = torch.cat([cache[1], k_pe], 1)
        n = lat.shape[1]
        wb = self.wkv_b.weight.view(c.n_heads, c.nope + c.v_dim, c.kv_rank)
        wk, wv = wb[:, :c.nope], wb[:, c.nope:]
        if absorbed:
            q_lat = torch.einsum("bthd,hdr->bthr", q_nope, wk)
            s = torch.einsum("bthr,bsr->bhts", q_lat, lat)
        else:
            k_nope = torch.einsum("bsr,hdr->bshd", lat, wk)
            s = torch.einsum("bthd,bshd->bhts", q_nope, k_nope)
        s = (s + torch.einsum("bthd,bsd->bhts", q_pe, k_pe)) * self.scale
        if t > 1:
            m = torch.ones(t, n, dtype=torch.bool, device=x.device).triu(n - t + 1)
            s = s.masked_fill(m, float("-inf"))
        p = s.softmax(-1, dtype=torch.float32).type_as(x)
        if absorbed:
            o = torch.einsum("bhts,bsr->bthr", p, lat)
            o = torch.einsum("bthr,hdr->bthd", o, wv)
        else:
            o = torch.einsum("bhts,bshd->bthd", p, torch.einsum("bsr,hdr->bshd", lat, wv))
        return self.wo(o.flatten(2)), (lat, k_pe)


def cache_bytes(cfg, tokens, layers, itemsize=2):
    mla = (cfg.kv_rank + cfg.rope) * tokens * layers * itemsize
    mha = cfg.n_heads * (cfg.nope + cfg.rope + cfg.v_dim) * tokens * layers * itemsize
    return mla, mha

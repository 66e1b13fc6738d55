"""Tiled attention in plain torch: the executable specification of the accelerator kernel.

Loops mirror the kernel's grid: one program per (batch, head, query tile); inside, the key
tiles stream through on-chip memory. The result is exact attention, whatever the tile sizes.
"""
import math
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class TileConfig:
    tile_q: int = 16
    tile_k: int = 16

    def sram_bytes(self, head_dim, itemsize=2):
        qo = 2 * self.tile_q * head_dim
        kv = 2 * self.tile_k * head_dim
        return (qo + kv + self.tile_q * self.tile_k) * itemsize


def ceil_div(a, b):
    return -(-a // b)


def attention_tile(q, k, v, q0, lk_minus_lq, causal, cfg):
    """One program. q [tile_q, d] starts at row q0; k, v [Lk, d] are the whole of one head."""
    n_q, d = q.shape
    n_k = k.shape[0]
    q = q.float() * (1.0 / math.sqrt(d))
    rows = q0 + torch.arange(n_q) + lk_minus_lq

    m_i = torch.full((n_q,), float("-inf"))
    l_i = torch.zeros(n_q)
    acc = torch.zeros(n_q, v.shape[1])

    last = n_k if not causal else min(n_k, int(rows[-1]) + 1)
    for start in range(0, last, cfg.tile_k):
        stop = min(start + cfg.tile_k, n_k)
        s = q @ k[start:stop].float().T
        if causal:
            cols = torch.arange(start, stop)
            s = s.masked_fill(cols[None, :] > rows[:, None], float("-inf"))
        m_new = torch.maximum(m_i, s.amax(dim=1))
        alpha = torch.exp(m_i - m_new)
        p = torch.exp(s - m_new[:, None])
        l_i = l_i * alpha + p.sum(dim=1)
        acc = acc + p @ v[start:stop].float()
        m_i = m_new
    return acc / l_i[:, None]


def tiled_attention(q, k, v, causal=False, cfg=TileConfig()):
    """q [B, H, Lq, d], k [B, H, Lk, d], v [B, H, Lk, dv]; Lq <= Lk; causal is bottom-right aligned."""
    B, H, Lq, d = q.shape
    Lk = k.shape[2]
    if causal and Lq > Lk:
        raise ValueError("causal needs Lq <= Lk")
    out = torch.empty(B, H, Lq, v.shape[3], dtype=q.dtype)
    for b in range(B):
        for h in range(H):
            for i in range(ceil_div(Lq, cfg.tile_q)):
                lo, hi = i * cfg.tile_q, min((i + 1) * cfg.tile_q, Lq)
                out[b, h, lo:hi] = attention_tile(q[b, h, lo:hi], k[b, h], v[b, h], lo, Lk - Lq, causal, cfg).to(q.dtype)
    return out


def best_config(head_dim, sram_limit, itemsize=2):
    """The largest square tile which fits."""
    best = None
    for t in (16, 32, 64, 128):
        c = TileConfig(t, t)
        if c.sram_bytes(head_dim, itemsize) <= sram_limit:
            best = c
    if best is None:
        raise ValueError("no tile fits into %d bytes" % sram_limit)
    return best


def io_estimate(lq, lk, d, cfg, itemsize=2):
    """Bytes moved between main memory and the chip for one head."""
    q_tiles = ceil_div(lq, cfg.tile_q)
    return itemsize * (2 * lq * d + q_tiles * 2 * lk * d)


def flops(lq, lk, d, causal):
    full = 4 * lq * lk * d
    return full // 2 if causal else full

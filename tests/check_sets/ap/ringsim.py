"""Simulate ring attention on one machine.

``world`` ranks hold one slice of the sequence each. In every round each rank works on
the K/V slice it holds at the moment and then passes it to its right neighbour; partial
results are merged by their log-sum-exp (natural logarithm).
"""
from collections import deque

import numpy as np


def shard(x, world):
    if x.shape[1] % world:
        raise ValueError("sequence does not divide evenly")
    return np.split(x, world, axis=1)


def block(q, k, v, qpos, kpos, scale, causal, key_ok):
    """q (B, n, H, d); returns out (B, n, H, d) and lse (B, n, H); no key seen -> 0, -inf"""
    s = np.einsum("bqhd,bkhd->bqhk", q, k) * scale
    see = np.broadcast_to(key_ok[:, None, None, :], s.shape)
    if causal:
        see = see & (kpos[None, :] <= qpos[:, None])[None, :, None, :]
    s = np.where(see, s, -np.inf)
    m = s.max(-1)
    m_ = np.where(np.isneginf(m), 0.0, m)
    e = np.exp(s - m_[..., None])
    z = e.sum(-1)
    out = np.einsum("bqhk,bkhd->bqhd", e, v) / np.where(z == 0, 1.0, z)[..., None]
    with np.errstate(divide="ignore"):
        return out, m_ + np.log(z)


def merge(o1, l1, o2, l2):
    top = np.maximum(l1, l2)
    top_ = np.where(np.isneginf(top), 0.0, top)
    w1, w2 = np.exp(l1 - top_), np.exp(l2 - top_)
    z = w1 + w2
    safe = np.where(z == 0, 1.0, z)
    o = (o1 * w1[..., None] + o2 * w2[..., None]) / safe[..., None]
    with np.errstate(divide="ignore"):
        return o, top_ + np.log(z)


class Rank:
    def __init__(self, idx, q, n):
        self.idx, self.q = idx, q
        self.pos = np.arange(idx * n, (idx + 1) * n)
        self.o = np.zeros_like(q)
        self.lse = np.full(q.shape[:3], -np.inf)
        self.traffic = 0


def ring_attention(q, k, v, world, causal=False, key_ok=None, scale=None):
    """q, k, v: (B, L, H, d).  key_ok: bool (B, L), False = padding key.

    Returns (out, per-rank number of floats received).
    """
    B, L, H, d = q.shape
    n = L // world
    scale = d ** -0.5 if scale is None else scale
    key_ok = np.ones((B, L), bool) if key_ok is None else key_ok
    ranks = [Rank(i, qi, n) for i, qi in enumerate(shard(q, world))]
    held = deque(
        (i, ki, vi, mi)
        for i, (ki, vi, mi) in enumerate(zip(shard(k, world), shard(v, world), shard(key_ok, world)))
    )
    for step in range(world):
        for r, (owner, ki, vi, mi) in zip(ranks, held):
            if causal and owner > r.idx:
                continue
            kpos = np.arange(owner * n, (owner + 1) * n)
            o, lse = block(r.q, ki, vi, r.pos, kpos, scale, causal, mi)
            r.o, r.lse = merge(r.o, r.lse, o, lse)
        if step + 1 < world:
            held.rotate(1)
            for r, (_, ki, vi, _) in zip(ranks, held):
                r.traffic += ki.size + vi.size
    return np.concatenate([r.o for r in ranks], axis=1), [r.traffic for r in ranks]

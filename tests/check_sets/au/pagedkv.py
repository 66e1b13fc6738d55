"""Toy paged KV cache in numpy: block tables, a free list, and a decode step with grouped heads."""
from collections import deque

import numpy as np


class OutOfBlocks(RuntimeError):
    pass


class PagedCache:
    def __init__(self, n_blocks, block, kv_heads, dh, dtype=np.float32):
        self.k = np.zeros((n_blocks, block, kv_heads, dh), dtype)
        self.v = np.zeros((n_blocks, block, kv_heads, dh), dtype)
        self.block = block
        self.free = deque(range(n_blocks))
        self.tables = {}
        self.length = {}

    def open(self, rid):
        self.tables[rid] = []
        self.length[rid] = 0

    def close(self, rid):
        self.free.extend(self.tables.pop(rid))
        del self.length[rid]

    def append(self, rid, k, v):
        """k, v: [n, kv_heads, dh], the n newest positions."""
        for kk, vv in zip(k, v):
            n = self.length[rid]
            if n % self.block == 0:
                if not self.free:
                    raise OutOfBlocks(rid)
                self.tables[rid].append(self.free.popleft())
            b = self.tables[rid][n // self.block]
            self.k[b, n % self.block] = kk
            self.v[b, n % self.block] = vv
            self.length[rid] = n + 1


def paged_attention(q, cache, rids, scale=None):
    """q [B, heads, dh], one new query per request, whose own k/v is already in the cache.

    Consecutive query heads share a kv head: head h reads kv head h // (heads // kv_heads).
    Blocks are walked one by one with a running maximum and sum.
    """
    B, H, dh = q.shape
    Hkv = cache.k.shape[2]
    G = H // Hkv
    scale = 1.0 / np.sqrt(dh) if scale is None else scale
    out = np.empty((B, H, dh), np.float64)
    for i, rid in enumerate(rids):
        n = cache.length[rid]
        qi = q[i].reshape(Hkv, G, dh).astype(np.float64)
        m = np.full((Hkv, G), -np.inf)
        l = np.zeros((Hkv, G))
        acc = np.zeros((Hkv, G, dh))
        for j, blk in enumerate(cache.tables[rid]):
            fill = min(cache.block, n - j * cache.block)
            kb, vb = cache.k[blk, :fill], cache.v[blk, :fill]
            s = np.einsum("hgd,thd->hgt", qi, kb) * scale
            new = np.maximum(m, s.max(-1))
            p = np.exp(s - new[..., None])
            r = np.exp(m - new)
            l = l * r + p.sum(-1)
            acc = acc * r[..., None] + np.einsum("hgt,thd->hgd", p, vb)
            m = new
        out[i] = (acc / l[..., None]).reshape(H, dh)
    return out.astype(q.dtype)


class Scheduler:
    """Admits requests while there are blocks for their prompts."""

    def __init__(self, cache, reserve=1):
        self.cache, self.reserve = cache, reserve
        self.waiting, self.running = deque(), []

    def submit(self, rid, prompt_len):
        self.waiting.append((rid, prompt_len))

    def admit(self):
        while self.waiting:
            rid, n = self.waiting[0]
            need = -(-n // self.cache.block) + self.reserve
            if need > len(self.cache.free):
                break
            self.waiting.popleft()
            self.cache.open(rid)
            self.running.append(rid)
        return list(self.running)

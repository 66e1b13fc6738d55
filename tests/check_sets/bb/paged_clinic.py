"""Paged KV storage for the on-premise clinical notes server (CPU fallback path).

Same semantics as the CUDA kernel: fp32 math, one query token per sequence.
"""
from dataclasses import dataclass, field

import numpy as np


@dataclass
class PagedKV:
    num_pages: int
    page: int
    kv_heads: int
    dim: int
    free: list = field(default_factory=list)

    def __post_init__(self):
        shape = (self.num_pages, self.page, self.kv_heads, self.dim)
        # uninitialised on purpose, like the device memory
        self.k = np.full(shape, np.nan, np.float32)
        self.v = np.full(shape, np.nan, np.float32)
        self.free = list(range(self.num_pages))[::-1]
        self.table, self.length = {}, {}

    def append(self, seq, k, v):
        n = self.length.setdefault(seq, 0)
        pages = self.table.setdefault(seq, [])
        if n == len(pages) * self.page:
            if not self.free:
                raise MemoryError("no free page")
            pages.append(self.free.pop())
        where = pages[n // self.page], n % self.page
        self.k[where], self.v[where] = k, v
        self.length[seq] = n + 1

    def release(self, seq):
        self.free += self.table.pop(seq)[::-1]
        del self.length[seq]


def paged_decode(q, cache: PagedKV, seqs, scale=None):
    """q: (len(seqs), H, dim), one row per sequence id in `seqs`. Returns the same shape.

    Query heads are grouped: H // kv_heads consecutive heads share one kv head.
    A sequence without any stored token returns zeros.
    """
    b, H, d = q.shape
    g = H // cache.kv_heads
    scale = 1 / np.sqrt(d) if scale is None else scale
    out = np.zeros((b, H, d), np.float32)
    for row, seq in enumerate(seqs):
        left = cache.length.get(seq, 0)
        qg = q[row].reshape(cache.kv_heads, g, d).astype(np.float32) * scale
        best = np.full((cache.kv_heads, g, 1), -np.inf, np.float32)
        total = np.zeros_like(best)
        acc = np.zeros((cache.kv_heads, g, d), np.float32)
        for p in cache.table.get(seq, ()):
            n = min(left, cache.page)
            s = np.einsum("hgd,thd->hgt", qg, cache.k[p, :n])
            top = np.maximum(best, s.max(-1, keepdims=True))
            w, fade = np.exp(s - top), np.exp(best - top)
            total = total * fade + w.sum(-1, keepdims=True)
            acc = acc * fade + np.einsum("hgt,thd->hgd", w, cache.v[p, :n])
            best, left = top, left - n
        if cache.length.get(seq, 0):
            out[row] = (acc / total).reshape(H, d)
    return out


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    kv = PagedKV(16, 4, 2, 8)
    for t in range(9):
        kv.append("note-1", rng.normal(size=(2, 8)), rng.normal(size=(2, 8)))
    print(paged_decode(rng.normal(size=(1, 4, 8)), kv, ["note-1"]).shape)

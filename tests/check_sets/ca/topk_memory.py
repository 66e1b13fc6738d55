"""Reads a product memory for query understanding.

`TopKReader` scores a batch of query vectors against all memory rows and attends only
to the `k` best rows of each query (per head); everything else gets weight zero.  Rows
that are retired from the catalogue (active == False) are never read.  If fewer than k
rows are active, the active ones share the weight; with none active the answer is zero.
"""
from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]


class TopKReader:
    def __init__(self, wq: Array, wk: Array, wv: Array, heads: int, k: int) -> None:
        self.wq, self.wk, self.wv = wq, wk, wv
        self.heads = heads
        self.k = k

    @classmethod
    def random(cls, d_query: int = 10, d_mem: int = 12, heads: int = 2, d_head: int = 6,
               k: int = 3, seed: int = 0) -> "TopKReader":
        g = np.random.default_rng(seed)
        n = heads * d_head
        return cls(
            g.normal(size=(d_query, n)) / d_query**0.5,
            g.normal(size=(d_mem, n)) / d_mem**0.5,
            g.normal(size=(d_mem, n)) / d_mem**0.5,
            heads,
            k,
        )

    def __call__(self, queries: Array, memory: Array, active: NDArray[np.bool_] | None = None) -> Array:
        n, m = queries.shape[0], memory.shape[0]
        if active is None:
            active = np.ones(m, dtype=bool)

        q = (queries @ self.wq).reshape(n, self.heads, -1)
        keys = (memory @ self.wk).reshape(m, self.heads, -1)
        vals = (memory @ self.wv).reshape(m, self.heads, -1)

        logits = np.einsum("nhd,mhd->nhm", q, keys) / np.sqrt(q.shape[-1])
        logits = np.where(active, logits, -np.inf)

        k = min(self.k, m)
        best = np.argpartition(-logits, k - 1, axis=-1)[..., :k]          # n, h, k
        chosen = np.take_along_axis(logits, best, axis=-1)

        peak = chosen.max(axis=-1, keepdims=True)
        peak = np.where(np.isfinite(peak), peak, 0.0)
        e = np.exp(chosen - peak)
        total = e.sum(axis=-1, keepdims=True)
        weights = np.divide(e, total, out=np.zeros_like(e), where=total > 0)

        # vals[best[n, h, j], h] for every n, h, j
        picked = vals[best, np.arange(self.heads)[None, :, None]]         # n, h, k, d
        return np.einsum("nhk,nhkd->nhd", weights, picked).reshape(n, -1)

"""Flash-decoding in numpy: one query against a long cache, split over workers.

Each worker handles a slice of the cache and returns its normalised output and
the log-sum-exp of its scores.  Base 2 is used throughout (the kernel has only
exp2): the query is pre-multiplied by log2(e)/sqrt(d), ``lse2`` is
log2(sum(exp2(...))), and the merge weighs the slices by exp2(lse2).  The result
equals softmax(q K^T / sqrt(d)) V over the whole cache.
"""
import math

import numpy as np

LOG2E = math.log2(math.e)


def partial_decode(q2, k, v):
    """q2 (H, d) pre-scaled, k and v (n, H, d) -> out (H, d), lse2 (H,)"""
    s = np.einsum("hd,nhd->hn", q2, k)
    top = s.max(axis=1, keepdims=True)
    p = np.exp2(s - top)
    total = p.sum(axis=1, keepdims=True)
    out = np.einsum("hn,nhd->hd", p / total, v)
    return out, (top + np.log2(total))[:, 0]


def merge(outs, lses):
    """outs (S, H, d), lses (S, H) -> (H, d), (H,)"""
    top = lses.max(axis=0)
    w = np.exp2(lses - top)
    total = w.sum(axis=0)
    out = np.einsum("sh,shd->hd", w / total, outs)
    return out, top + np.log2(total)


class SplitDecoder:
    def __init__(self, n_splits: int = 3):
        self.n_splits = n_splits

    def bounds(self, n: int):
        """Slices of nearly equal length; never an empty one."""
        s = min(self.n_splits, n)
        edges = [i * n // s for i in range(s + 1)]
        return list(zip(edges[:-1], edges[1:]))

    def __call__(self, q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
        """q (H, d), k (n, H, d), v (n, H, d) with n >= 1 -> (H, d)"""
        q2 = q * (LOG2E / math.sqrt(q.shape[-1]))
        parts = [partial_decode(q2, k[a:b], v[a:b]) for a, b in self.bounds(len(k))]
        outs = np.stack([o for o, _ in parts])
        lses = np.stack([l for _, l in parts])
        return merge(outs, lses)[0]

"""Split-KV decoding on a CPU cluster for the dugout (baseball strategy) assistant.

Each worker holds a slice of the cache and returns its partial output together with
its log-sum-exp; the coordinator merges the slices.  The kernels use exp2 because the
vectorised exp2 is faster on our boxes.
"""
from typing import List, NamedTuple

import numpy as np

LOG2E = 1.4426950408889634


class Partial(NamedTuple):
    out: np.ndarray   # [H, d], already divided by the local sum
    lse: np.ndarray   # [H]


def local_kernel(q, k, v):
    """q: [H, d]; k, v: [S, H, d] slice of the cache on one worker (S may be 0)."""
    H, d = q.shape
    if len(k) == 0:
        return Partial(np.zeros((H, d)), np.full(H, -np.inf))
    t = np.einsum("hd,shd->hs", q, k) * (LOG2E / np.sqrt(d))
    m = t.max(axis=1)
    p = np.exp2(t - m[:, None])
    l = p.sum(axis=1)
    out = np.einsum("hs,shd->hd", p, v) / l[:, None]
    return Partial(out, m + np.log2(l))


def merge(parts: List[Partial]) -> np.ndarray:
    """Exact combination of disjoint slices; at least one slice is not empty."""
    lse = np.stack([p.lse for p in parts])                 # [W, H]
    top = lse.max(axis=0)
    w = np.exp(lse - top)
    w = w / w.sum(axis=0)
    return np.einsum("wh,whd->hd", w, np.stack([p.out for p in parts]))


class SplitCache:
    """Round-robin placement of whole pages, so slices differ in length."""

    def __init__(self, workers, heads, dim, page=4):
        self.page, self.n = page, 0
        self.k = [np.zeros((0, heads, dim)) for _ in range(workers)]
        self.v = [np.zeros((0, heads, dim)) for _ in range(workers)]

    def push(self, k, v):
        w = (self.n // self.page) % len(self.k)
        self.k[w] = np.concatenate([self.k[w], k[None]])
        self.v[w] = np.concatenate([self.v[w], v[None]])
        self.n += 1


def split_decode(q, cache: SplitCache):
    """Attention of one new token q [H, d] over everything in the cache -> [H, d]."""
    return merge([local_kernel(q, k, v) for k, v in zip(cache.k, cache.v)])


def play_inning(steps=11, workers=3, heads=2, dim=8, seed=0):
    r = np.random.default_rng(seed)
    cache = SplitCache(workers, heads, dim)
    outs = []
    for _ in range(steps):
        cache.push(r.normal(size=(heads, dim)), r.normal(size=(heads, dim)))
        outs.append(split_decode(r.normal(size=(heads, dim)), cache))
    return np.stack(outs)


if __name__ == "__main__":
    print(play_inning().shape)

"""Split-KV decoding ("flash decoding") reference for our GPU kernel, NumPy.

The kernel works with exp2 because that is what the hardware has; the reference follows it
so that intermediates can be compared one to one.
"""
import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np

LOG2E = math.log2(math.e)


def partial(q, k, v, scale):
    """One split.  q [H, D], k/v [n, H, D] -> normalised out [H, D], log-sum-exp [H]."""
    x = np.einsum("hd,nhd->hn", q, k) * (scale * LOG2E)
    m = x.max(axis=1)
    p = np.exp2(x - m[:, None])
    z = p.sum(axis=1)
    out = np.einsum("hn,nhd->hd", p, v) / z[:, None]
    return out, m + np.log2(z)


def merge(outs, lses):
    """Combine the splits: outs [S, H, D], lses [S, H] -> [H, D], [H]."""
    top = lses.max(axis=0)
    w = np.exp(lses - top)
    total = w.sum(axis=0)
    out = (outs * (w / total)[..., None]).sum(axis=0)
    return out, top + np.log(total)


def plan(length, max_splits, min_size):
    """Boundaries of the splits; never an empty one."""
    n = max(1, min(max_splits, length // min_size))
    edges = [round(i * length / n) for i in range(n + 1)]
    return list(zip(edges[:-1], edges[1:]))


def flash_decode(q, k, v, *, scale=None, max_splits=4, min_size=4, pool=None):
    """Attention of one query token over the whole cache.

    q [H, D]; k, v [L, H, D]; scale defaults to D ** -0.5.  The result does not depend on the
    number of splits.
    """
    if k.shape != v.shape:
        raise ValueError(f"k {k.shape} and v {v.shape} differ")
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    jobs = [(q, k[a:b], v[a:b], scale) for a, b in plan(len(k), max_splits, min_size)]
    if pool is None:
        parts = [partial(*j) for j in jobs]
    else:
        parts = list(pool.map(lambda j: partial(*j), jobs))
    outs = np.stack([p[0] for p in parts])
    lses = np.stack([p[1] for p in parts])
    return merge(outs, lses)[0]


class CacheView:
    """Growing cache with amortised doubling."""

    def __init__(self, heads, dim):
        self.buf = np.empty((2, 8, heads, dim))
        self.n = 0

    def push(self, k, v):
        if self.n == self.buf.shape[1]:
            self.buf = np.concatenate([self.buf, np.empty_like(self.buf)], axis=1)
        self.buf[0, self.n], self.buf[1, self.n] = k, v
        self.n += 1

    @property
    def kv(self):
        return self.buf[0, : self.n], self.buf[1, : self.n]


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    cache = CacheView(4, 16)
    with ThreadPoolExecutor(2) as pool:
        for _ in range(20):
            cache.push(rng.normal(size=(4, 16)), rng.normal(size=(4, 16)))
            o = flash_decode(rng.normal(size=(4, 16)), *cache.kv, pool=pool)
    print(o.shape)

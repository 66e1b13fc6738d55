"""Flash-decoding on several workers: every worker owns a slice of the KV cache and
returns its partial output and log-sum-exp (natural log); the master merges them.
"""
from concurrent.futures import ThreadPoolExecutor

import numpy as np

LOG2E = 1.4426950408889634


def partial_attention(q, k, v):
    """q (H, D), k/v (n, H, D) -> o (H, D), lse (H,)

    Uses exp2, as our CUDA kernel does, with log2(e) folded into the scale.
    """
    s = np.einsum("hd,nhd->hn", q, k) * (LOG2E / np.sqrt(q.shape[-1]))
    m = s.max(axis=-1, keepdims=True)
    p = np.exp2(s - m)
    l = p.sum(axis=-1, keepdims=True)
    o = np.einsum("hn,nhd->hd", p / l, v)
    lse = (m + np.log2(l))[:, 0]
    return o, lse


def merge(parts):
    """Combine [(o, lse), ...] into the attention over the union of the slices."""
    os = np.stack([o for o, _ in parts])
    ls = np.stack([z for _, z in parts])
    top = ls.max(axis=0)
    w = np.exp(ls - top)
    w = w / w.sum(axis=0)
    return (w[..., None] * os).sum(axis=0)


class SplitDecoder:
    def __init__(self, workers=2):
        self.workers = workers
        self.k, self.v = [], []

    def append(self, k, v):
        self.k.append(k)
        self.v.append(v)

    def decode(self, q):
        k, v = np.stack(self.k), np.stack(self.v)
        bounds = np.linspace(0, len(k), min(self.workers, len(k)) + 1).astype(int)
        with ThreadPoolExecutor(self.workers) as pool:
            jobs = [pool.submit(partial_attention, q, k[a:b], v[a:b])
                    for a, b in zip(bounds[:-1], bounds[1:])]
            return merge([j.result() for j in jobs])


if __name__ == "__main__":
    g = np.random.default_rng(0)
    d = SplitDecoder(3)
    for _ in range(11):
        d.append(g.normal(size=(2, 8)), g.normal(size=(2, 8)))
    print(d.decode(g.normal(size=(2, 8))))

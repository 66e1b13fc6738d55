"""NumPy model of the split-KV decode kernel ("flash decoding").

Stage 1 handles one slice of the cache per worker and works with exp2 like the CUDA code (log2(e) folded
into the scale).  Stage 2 merges the slices.  merge_partials is also called by the prefix-sharing path.
"""
from dataclasses import dataclass

import numpy as np

LOG2E = 1.4426950408889634


@dataclass
class Partial:
    out: np.ndarray      # (H, d)   normalised inside the slice
    lse: np.ndarray      # (H,)     log-sum-exp of the slice


def decode_slice(q, k, v):
    """q (H, d), k/v (n, Hkv, d) -> Partial."""
    H, d = q.shape
    group = H // k.shape[1]
    kk = np.repeat(k, group, axis=1)
    vv = np.repeat(v, group, axis=1)
    s = np.einsum("hd,nhd->hn", q, kk) * (LOG2E / np.sqrt(d))
    top = s.max(axis=1)
    p = np.exp2(s - top[:, None])
    total = p.sum(axis=1)
    out = np.einsum("hn,nhd->hd", p, vv) / total[:, None]
    return Partial(out, top + np.log2(total))


def merge_partials(parts):
    """Exact attention over the union of the slices."""
    lse = np.stack([p.lse for p in parts])               # (S, H)
    out = np.stack([p.out for p in parts])               # (S, H, d)
    m = lse.max(axis=0)
    w = np.exp(lse - m)
    z = w.sum(axis=0)
    merged = np.einsum("sh,shd->hd", w, out) / z[:, None]
    return Partial(merged, m + np.log(z))


def choose_splits(n, workers, min_slice=4):
    per = max(min_slice, -(-n // workers))
    return [(a, min(a + per, n)) for a in range(0, n, per)]


def split_kv_decode(q, k, v, workers=4):
    """One new token per head against a cache of n tokens; equals plain softmax attention."""
    n = k.shape[0]
    parts = [decode_slice(q, k[a:b], v[a:b]) for a, b in choose_splits(n, workers)]
    return merge_partials(parts).out


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    q = rng.normal(size=(8, 16))
    k, v = rng.normal(size=(50, 2, 16)), rng.normal(size=(50, 2, 16))
    print(split_kv_decode(q, k, v).shape)

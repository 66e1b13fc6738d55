"""Split-KV ("flash decoding") in NumPy: each worker handles a part of the cache and gives back
its normalised output and its log-sum-exp; the host merges the parts. Result must equal plain
softmax attention over the whole cache.
"""
import math

import numpy as np

LOG2E = math.log2(math.e)


def plan(n_keys, n_workers, min_chunk=8):
    """List of (start, stop) covering range(n_keys)."""
    size = max(min_chunk, -(-n_keys // n_workers))
    return [(a, min(a + size, n_keys)) for a in range(0, n_keys, size)]


def worker(q, k, v):
    """q [H, d], k, v [S, H, d] -> out [H, d], lse [H]

    exp2 is a single instruction on the target, hence LOG2E is folded into the scale.
    """
    scale = LOG2E / math.sqrt(q.shape[-1])
    s = np.einsum("hd,shd->hs", q, k) * scale
    m = s.max(axis=1)
    p = np.exp2(s - m[:, None])
    z = p.sum(axis=1)
    out = np.einsum("hs,shd->hd", p, v) / z[:, None]
    return out, m + np.log2(z)


def merge(outs, lses):
    """outs: list of [H, d], lses: list of [H]"""
    lse = np.stack(lses)
    top = lse.max(axis=0)
    w = np.exp(lse - top)
    w = w / w.sum(axis=0)
    return np.einsum("ch,chd->hd", w, np.stack(outs))


def decode_attention(q, k_cache, v_cache, n_workers=4, min_chunk=8):
    """Attention of one new token over the cache [S, H, d]."""
    parts = [worker(q, k_cache[a:b], v_cache[a:b]) for a, b in plan(len(k_cache), n_workers, min_chunk)]
    return merge([o for o, _ in parts], [l for _, l in parts])


class Cache:
    def __init__(self, capacity, heads, d):
        self.k = np.empty((capacity, heads, d))
        self.v = np.empty((capacity, heads, d))
        self.n = 0

    def push(self, k, v):
        self.k[self.n], self.v[self.n] = k, v
        self.n += 1

    def attend(self, q, **kw):
        return decode_attention(q, self.k[:self.n], self.v[:self.n], **kw)

"""Split-KV decoding in numpy, the way flash-decoding does it.

The KV cache of one sequence is cut into chunks, every chunk is attended to on its own and gives
(partial output, log-sum-exp of its scores); afterwards the partials are merged. The result has to be
the same as attention over the whole cache.
"""
import numpy as np

LOG2E = 1.4426950408889634


def attend_chunk(q, k, v, scale):
    """q (H, D); k, v (S, H, D). Returns o (H, D) and lse (H,)."""
    # fold log2(e) into the scale and use exp2, as the kernels do
    s = np.einsum("hd,shd->hs", q, k) * (scale * LOG2E)
    m = s.max(axis=1, keepdims=True)
    p = np.exp2(s - m)
    denom = p.sum(axis=1, keepdims=True)
    o = np.einsum("hs,shd->hd", p / denom, v)
    lse = (m + np.log2(denom))[:, 0]
    return o, lse


def merge(o_a, lse_a, o_b, lse_b):
    """Combine two partial results, weights are the chunks' shares of the total softmax mass."""
    top = np.maximum(lse_a, lse_b)
    w_a = np.exp(lse_a - top)
    w_b = np.exp(lse_b - top)
    tot = w_a + w_b
    o = (w_a[:, None] * o_a + w_b[:, None] * o_b) / tot[:, None]
    return o, top + np.log(tot)


def split_kv_decode(q, k_cache, v_cache, cur_len, chunk=128):
    """One decoding step: q (H, D), caches (max_len, H, D), only the first cur_len rows are valid."""
    H, D = q.shape
    scale = 1.0 / np.sqrt(D)
    o = lse = None
    for lo in range(0, cur_len, chunk):
        hi = min(lo + chunk, cur_len)
        part, part_lse = attend_chunk(q, k_cache[lo:hi], v_cache[lo:hi], scale)
        if o is None:
            o, lse = part, part_lse
        else:
            o, lse = merge(o, lse, part, part_lse)
    return o


class KVCache:
    def __init__(self, max_len, heads, dim):
        self.k = np.zeros((max_len, heads, dim))
        self.v = np.zeros((max_len, heads, dim))
        self.n = 0

    def append(self, k, v):
        self.k[self.n] = k
        self.v[self.n] = v
        self.n += 1

    def attend(self, q, chunk=128):
        return split_kv_decode(q, self.k, self.v, self.n, chunk)

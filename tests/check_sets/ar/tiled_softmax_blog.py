"""Code for the post "FlashAttention with a pencil": one pass over tiles of K and V, a running
maximum and a running denominator per row.  NumPy, forward and log-sum-exp, so that the
backward pass of part two can use it.

q [n, d], k [m, d], v [m, dv].  causal: query n-1 lines up with key m-1, padding counted.
"""
import numpy as np


def tile_attention(q, k, v, causal=False, kv_len=None, br=16, bc=8):
    """kv_len: only the first kv_len keys are real (the rest is padding). Returns (o, lse).
    Rows which see nothing give o = 0 and lse = -inf."""
    n, d = q.shape
    m, dv = v.shape
    kv_len = m if kv_len is None else kv_len
    shift = m - n
    o = np.zeros((n, dv))
    lse = np.full(n, -np.inf)
    for r0 in range(0, n, br):
        r1 = min(r0 + br, n)
        qi = q[r0:r1] / np.sqrt(d)
        acc = np.zeros((r1 - r0, dv))
        den = np.zeros(r1 - r0)
        top = np.full(r1 - r0, -np.inf)
        for c0 in range(0, kv_len, bc):
            c1 = min(c0 + bc, kv_len)
            if causal and c0 > r1 - 1 + shift:
                break                                        # the tile is all future
            s = qi @ k[c0:c1].T
            if causal:
                rows = np.arange(r0, r1)[:, None] + shift
                s = np.where(np.arange(c0, c1)[None] <= rows, s, -np.inf)
            new_top = np.maximum(top, s.max(axis=1))
            safe = np.where(np.isfinite(new_top), new_top, 0.0)
            p = np.exp(s - safe[:, None])
            decay = np.exp(top - safe)
            den = den * decay + p.sum(axis=1)
            acc = acc * decay[:, None] + p @ v[c0:c1]
            top = new_top
        some = den > 0
        o[r0:r1][some] = acc[some] / den[some, None]
        lse[r0:r1][some] = top[some] + np.log(den[some])
    return o, lse


def backward_q(q, k, v, o, lse, do):
    """gradient for q, not causal, untiled; here only to show where lse comes in"""
    d = q.shape[1]
    p = np.exp(q @ k.T / np.sqrt(d) - lse[:, None])
    delta = (do * o).sum(1, keepdims=True)
    ds = p * (do @ v.T - delta)
    return ds @ k / np.sqrt(d)


def flops(n, m, d):
    return 4 * n * m * d


if __name__ == "__main__":
    r = np.random.default_rng(0)
    q, k, v = r.normal(size=(20, 4)), r.normal(size=(33, 4)), r.normal(size=(33, 6))
    o, lse = tile_attention(q, k, v, causal=True)
    print(o.shape, lse[:4], flops(20, 33, 4))

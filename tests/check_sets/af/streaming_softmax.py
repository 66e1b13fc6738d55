import numpy as np

# Notes to myself while reading the "online normalizer" and memory-efficient attention papers.
# Everything is (T, d), one head.  Goal: never hold the T x T matrix.


def _dot_block(q, k, scale):
    return scale * np.tensordot(q, k, axes=([1], [1]))


def stream_attend(q, k, v, block=16, causal=False, past=0):
    """softmax(q k^T / sqrt(d)) v, walking over the keys from the END to the start.

    past : number of keys which came before q[0] (decode with a cache); query i sits at
           absolute position past + i.
    Returns (o, L) where L[i] = log sum_j exp(s_ij), natural log.  A row without
    any visible key gives o = 0, L = -inf.
    """
    q = np.asarray(q, dtype=np.float64)
    n, d = q.shape
    t = k.shape[0]
    scale = 1.0 / np.sqrt(d)

    m = np.full(n, -np.inf)
    z = np.zeros(n)
    o = np.zeros((n, v.shape[1]))
    pos = past + np.arange(n)

    stop = t
    while stop > 0:
        start = max(0, stop - block)
        s = _dot_block(q, k[start:stop], scale)
        if causal:
            s = np.where(np.arange(start, stop)[None, :] <= pos[:, None], s, -np.inf)
        new_m = np.maximum(m, s.max(axis=1))
        live = new_m > -np.inf
        if not live.any():
            stop = start
            continue
        ref = np.where(live, new_m, 0.0)
        shrink = np.exp(m - ref)             # 0 where m is still -inf
        e = np.exp(s - ref[:, None])
        z = shrink * z + e.sum(1)
        o = shrink[:, None] * o + e @ v[start:stop]
        m = new_m
        stop = start

    seen = z > 0
    o[seen] /= z[seen, None]
    with np.errstate(divide="ignore"):
        L = np.where(seen, m + np.log(z), -np.inf)
    return o, L


def combine(o_a, L_a, o_b, L_b):
    """Merge two results over disjoint key sets."""
    top = np.maximum(L_a, L_b)
    top = np.where(np.isfinite(top), top, 0.0)
    wa, wb = np.exp(L_a - top), np.exp(L_b - top)
    tot = wa + wb
    safe = np.where(tot > 0, tot, 1.0)
    o = (wa / safe)[:, None] * o_a + (wb / safe)[:, None] * o_b
    with np.errstate(divide="ignore"):
        return o, np.where(tot > 0, top + np.log(tot), -np.inf)


if __name__ == "__main__":
    rng = np.random.default_rng(3)
    q, k, v = rng.normal(size=(7, 4)), rng.normal(size=(21, 4)), rng.normal(size=(21, 5))
    whole, L = stream_attend(q, k, v, block=5)
    a = stream_attend(q, k[:8], v[:8])
    b = stream_attend(q, k[8:], v[8:])
    print(np.abs(combine(*a, *b)[0] - whole).max())

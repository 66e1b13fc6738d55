"""Online-softmax attention in NumPy, to explain the flash kernel in the seminar.

K and V are read in blocks; for every query row we carry the running maximum m, the
running sum l and the not yet divided output o.
"""
import numpy as np


def blocked_attention(q, k, v, block=16, causal=False, scale=None):
    """softmax(q k^T * scale) v without the full score matrix.

    q [Lq, d], k [Lk, d], v [Lk, dv].
    scale: 1/sqrt(d) unless given.
    causal: the last query stands at the last key (so row i sees the keys
        j <= i + Lk - Lq).  Rows that see nothing give 0 and lse = -inf.
    Returns out [Lq, dv] and lse [Lq], the natural log of the softmax denominator.
    """
    q = np.asarray(q, dtype=np.float64)
    k = np.asarray(k, dtype=np.float64)
    v = np.asarray(v, dtype=np.float64)
    Lq, d = q.shape
    Lk = k.shape[0]
    if v.shape[0] != Lk:
        raise ValueError("k and v differ in length")
    if scale is None:
        scale = 1.0 / np.sqrt(d)

    m = np.full(Lq, -np.inf)
    l = np.zeros(Lq)
    o = np.zeros((Lq, v.shape[1]))
    rows = np.arange(Lq)[:, None] + (Lk - Lq)

    for start in range(0, Lk, block):
        stop = min(start + block, Lk)
        s = q @ k[start:stop].T * scale
        if causal:
            cols = np.arange(start, stop)[None, :]
            s = np.where(cols <= rows, s, -np.inf)
        m_new = np.maximum(m, s.max(axis=1))
        safe = np.where(np.isfinite(m_new), m_new, 0.0)    # rows still empty
        p = np.exp(s - safe[:, None])
        fix = np.exp(m - safe)                             # exp(-inf) = 0 at first
        l = l * fix + p.sum(axis=1)
        o = o * fix[:, None] + p @ v[start:stop]
        m = m_new

    seen = l > 0
    out = np.zeros_like(o)
    out[seen] = o[seen] / l[seen, None]
    lse = np.full(Lq, -np.inf)
    lse[seen] = m[seen] + np.log(l[seen])
    return out, lse


def plain_attention(q, k, v):
    s = q @ k.T / np.sqrt(q.shape[1])
    s = s - s.max(axis=1, keepdims=True)
    p = np.exp(s)
    return p / p.sum(axis=1, keepdims=True) @ v


if __name__ == "__main__":
    g = np.random.default_rng(3)
    q, k, v = g.normal(size=(7, 8)), g.normal(size=(50, 8)), g.normal(size=(50, 5))
    print(np.abs(blocked_attention(q, k, v)[0] - plain_attention(q, k, v)).max())

"""FlashAttention forward in numpy, for reading. One head, float64.

q [n, d], k [m, d], v [m, e]. causal=True means query i sees keys j <= i + (m - n)
(bottom-right aligned). Returns (out [n, e], lse [n]), lse natural log.
A query that sees nothing gets out = 0 and lse = -inf.
"""
import numpy as np


def flash(q, k, v, causal=False, bq=3, bk=4, scale=None):
    n, d = q.shape
    m = k.shape[0]
    assert v.shape[0] == m
    scale = 1.0 / np.sqrt(d) if scale is None else scale
    out = np.zeros((n, v.shape[1]))
    lse = np.full(n, -np.inf)
    shift = m - n
    for i0 in range(0, n, bq):
        i1 = min(i0 + bq, n)
        top = np.full(i1 - i0, -np.inf)
        den = np.zeros(i1 - i0)
        acc = np.zeros((i1 - i0, v.shape[1]))
        for j0 in range(0, m, bk):
            if causal and j0 > i1 - 1 + shift:
                break                       # whole tile in the future
            j1 = min(j0 + bk, m)
            s = scale * q[i0:i1] @ k[j0:j1].T
            if causal:
                ii = np.arange(i0, i1)[:, None] + shift
                s = np.where(np.arange(j0, j1)[None] <= ii, s, -np.inf)
            new = np.maximum(top, s.max(1))
            ref = np.where(np.isneginf(new), 0.0, new)
            p = np.exp(s - ref[:, None])
            fade = np.exp(top - ref)
            den = den * fade + p.sum(1)
            acc = acc * fade[:, None] + p @ v[j0:j1]
            top = new
        some = den > 0
        out[i0:i1][some] = acc[some] / den[some, None]
        lse[i0:i1][some] = top[some] + np.log(den[some])
    return out, lse

"""Split-KV ("flash decoding") reference in NumPy.

The cache of one request is cut into n_split pieces.  Every piece returns its own
normalised output and the natural log-sum-exp of its scaled scores; a second pass
combines the pieces.  The result is ordinary attention over the whole cache:

    softmax(q k^T / sqrt(d)) v

Inside a piece the exponentials are taken with exp2 (as on the GPU, where ex2 is the
native instruction), so log2(e) is folded into the scale.
"""
import numpy as np

LOG2E = 1.4426950408889634


def piece(q, k, v):
    """q (H, d), k (H, n, d), v (H, n, dv) -> out (H, dv), lse (H,)"""
    qk_scale = q.shape[-1] ** -0.5 * LOG2E
    s = np.einsum("hd,hnd->hn", q, k) * qk_scale
    m = s.max(axis=1)
    p = np.exp2(s - m[:, None])
    z = p.sum(axis=1)
    out = np.einsum("hn,hnd->hd", p, v) / z[:, None]
    return out, m + np.log2(z)


def combine(outs, lses):
    """outs (S, H, dv), lses (S, H) -> (H, dv)"""
    top = lses.max(axis=0)
    w = np.exp(lses - top)
    w = w / w.sum(axis=0)
    return np.einsum("sh,shd->hd", w, outs)


def split_decode(q, k, v, n_split=4):
    """q (H, d) one new query, k (H, L, d), v (H, L, dv), L >= n_split -> (H, dv)."""
    L = k.shape[1]
    edges = np.linspace(0, L, n_split + 1).astype(int)
    outs, lses = [], []
    for a, b in zip(edges[:-1], edges[1:]):
        o, l = piece(q, k[:, a:b], v[:, a:b])
        outs.append(o)
        lses.append(l)
    return combine(np.stack(outs), np.stack(lses))

"""One pass over the keys, no score matrix larger than tile x tile.

Packed layout, as in the varlen kernels:
    q   (total, Hq, d)      k, v   (total, Hkv, d)
    cu_seqlens  (n + 1,) int, cu_seqlens[0] == 0
Query head h reads key/value head h // (Hq // Hkv).
"""
import numpy as np


def _one(q, k, v, scale, tile):
    n, d = q.shape
    out = np.zeros((n, v.shape[1]))
    for a in range(0, n, tile):
        qa = q[a:a + tile] * scale
        rows = np.arange(a, a + qa.shape[0])
        m = np.full(qa.shape[0], -np.inf)
        l = np.zeros(qa.shape[0])
        acc = np.zeros((qa.shape[0], v.shape[1]))
        # tiles right of the diagonal are never touched
        for c in range(0, rows[-1] + 1, tile):
            s = qa @ k[c:c + tile].T
            cols = np.arange(c, c + s.shape[1])
            s[cols[None] > rows[:, None]] = -np.inf
            m_new = np.maximum(m, s.max(1))
            p = np.exp(s - m_new[:, None])
            corr = np.exp(m - m_new)
            l = l * corr + p.sum(1)
            acc = acc * corr[:, None] + p @ v[c:c + tile]
            m = m_new
        out[a:a + tile] = acc / l[:, None]
    return out


def attend_packed(q, k, v, cu_seqlens, tile=16, scale=None):
    """Causal attention inside every packed sequence. Returns (total, Hq, dv)."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    group = q.shape[1] // k.shape[1]
    out = np.empty((q.shape[0], q.shape[1], v.shape[-1]))
    for lo, hi in zip(cu_seqlens[:-1], cu_seqlens[1:]):
        for h in range(q.shape[1]):
            g = h // group
            out[lo:hi, h] = _one(q[lo:hi, h], k[lo:hi, g], v[lo:hi, g], scale, tile)
    return out

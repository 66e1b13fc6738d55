"""Longformer attention pattern in plain NumPy, slow but easy to read.

Each position sees `w` neighbours to the left and `w` to the right and itself, and all
global positions; a global position sees everything and is seen by everything.
(The paper uses other projections for global attention; here q, k, v are given.)
"""
import numpy as np


def _softmax(z):
    z = z - z.max(axis=-1, keepdims=True)
    e = np.exp(z)
    return e / e.sum(axis=-1, keepdims=True)


def sliding_attention(q, k, v, w=2, global_idx=(0,)):
    """q, k, v: (heads, n, d). Returns (heads, n, d)."""
    h, n, d = q.shape
    q = q / np.sqrt(d)
    out = np.empty_like(v)
    g = sorted(set(int(i) for i in global_idx))
    for i in range(n):
        if i in g:
            cols = np.arange(n)
        else:
            band = range(max(0, i - w), min(n, i + w + 1))
            cols = np.array(sorted(set(band) | set(g)))
        p = _softmax(np.einsum("hd,hjd->hj", q[:, i], k[:, cols]))
        out[:, i] = np.einsum("hj,hjd->hd", p, v[:, cols])
    return out

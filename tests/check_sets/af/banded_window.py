"""
banded_window.py -- "sliding chunks" local attention in NumPy (for the genomics demo).

Each position sees its w left neighbours, itself and its w right neighbours.  Positions outside
of the sequence do not exist.  Work is O(L * w): scores are kept as a band (L, 2w + 1),
column c of row i is key i - w + c.
"""
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view


def band_view(x, w):
    """(H, L, d) -> (H, L, 2w+1, d) without copying the padded array."""
    padded = np.pad(x, ((0, 0), (w, w), (0, 0)))
    view = sliding_window_view(padded, 2 * w + 1, axis=1)      # H, L, d, 2w+1
    return np.moveaxis(view, -1, 2)


def band_exists(L, w):
    j = np.arange(L)[:, None] + np.arange(-w, w + 1)[None, :]
    return (j >= 0) & (j < L)


def local_attention(q, k, v, w, global_tokens=()):
    """q, k, v: (H, L, d).  ``global_tokens`` (positions) are seen by everybody and see everybody.
    """
    H, L, d = q.shape
    q = q / np.sqrt(d)
    s = np.einsum("hid,hicd->hic", q, band_view(k, w))
    ok = np.broadcast_to(band_exists(L, w), s.shape).copy()

    g = np.asarray(sorted(set(global_tokens)), dtype=int)
    if g.size:
        # a global key that also lies in the band must be counted once
        j = np.arange(L)[:, None] + np.arange(-w, w + 1)[None, :]
        ok &= ~np.isin(j, g)
        sg = np.einsum("hid,hgd->hig", q, k[:, g])
        s = np.concatenate([np.where(ok, s, -np.inf), sg], axis=-1)
    else:
        s = np.where(ok, s, -np.inf)

    s -= s.max(axis=-1, keepdims=True)
    p = np.exp(s)
    p /= p.sum(axis=-1, keepdims=True)

    n = 2 * w + 1
    y = np.einsum("hic,hicd->hid", p[..., :n], band_view(v, w))
    if g.size:
        y += np.einsum("hig,hgd->hid", p[..., n:], v[:, g])
        full = q[:, g] @ np.swapaxes(k, -1, -2)
        full = np.exp(full - full.max(-1, keepdims=True))
        y[:, g] = full @ v / full.sum(-1, keepdims=True)
    return y

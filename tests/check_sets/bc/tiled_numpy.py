"""
tiled_numpy.py -- FlashAttention forward explained in plain NumPy.

Companion code of a blog post. Speed is not the point; the memory is: nothing of
size (Lq, Lk) is ever made.
"""
import numpy as np


def _tiles(n, size):
    for a in range(0, n, size):
        yield a, min(a + size, n)


def tiled_attention(q, k, v, tile_q=4, tile_k=3, causal=False, return_lse=False):
    """
    q (..., Lq, d), k (..., Lk, d), v (..., Lk, dv).  softmax(q k^T / sqrt(d)) v.

    causal: the last query is aligned with the last key.
    return_lse: also give the natural log of the sum of exponentials, (..., Lq).
    """
    Lq, d = q.shape[-2:]
    Lk = k.shape[-2]
    shift = Lk - Lq
    out = np.zeros(q.shape[:-1] + (v.shape[-1],), dtype=np.float64)
    lse = np.full(q.shape[:-1], -np.inf)
    for i0, i1 in _tiles(Lq, tile_q):
        qi = q[..., i0:i1, :].astype(np.float64) / np.sqrt(d)
        m = np.full(qi.shape[:-1], -np.inf)
        l = np.zeros_like(m)
        acc = np.zeros(qi.shape[:-1] + (v.shape[-1],))
        for j0, j1 in _tiles(Lk, tile_k):
            if causal and j0 > i1 - 1 + shift:
                break  # the whole tile lies in the future
            s = qi @ np.swapaxes(k[..., j0:j1, :], -1, -2)
            if causal:
                rows = np.arange(i0, i1)[:, None] + shift
                s = np.where(np.arange(j0, j1)[None, :] <= rows, s, -np.inf)
            m_new = np.maximum(m, s.max(-1))
            safe = np.where(np.isneginf(m_new), 0.0, m_new)
            p = np.exp(s - safe[..., None])
            alpha = np.exp(m - safe)
            l = alpha * l + p.sum(-1)
            acc = alpha[..., None] * acc + p @ v[..., j0:j1, :]
            m = m_new
        ok = l > 0
        out[..., i0:i1, :] = acc / np.where(ok, l, 1.0)[..., None]
        with np.errstate(divide="ignore"):
            lse[..., i0:i1] = m + np.log(l)
    return (out, lse) if return_lse else out


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(2, 9, 8)) for _ in range(3))
    print(tiled_attention(q, k, v, causal=True).shape)

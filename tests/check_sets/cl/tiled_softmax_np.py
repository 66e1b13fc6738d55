"""Reference for our FPGA attention: one pass over key tiles with a running maximum
(online softmax), so that the full score row never has to be stored. NumPy, float64."""
import numpy as np


def tiled_attention(q, k, v, tile=4, causal=False):
    """q (..., Tq, d), k (..., Tk, d), v (..., Tk, dv) -> (..., Tq, dv)

    softmax(q k^T / sqrt(d)) v. With causal=True the last query is aligned with the last
    key (Tq <= Tk), so query i sees keys 0 .. i + Tk - Tq.
    """
    q = np.asarray(q, dtype=np.float64) / np.sqrt(q.shape[-1])
    tq, tk = q.shape[-2], k.shape[-2]
    m = np.full(q.shape[:-1] + (1,), -np.inf)
    l = np.zeros_like(m)
    acc = np.zeros(q.shape[:-1] + (v.shape[-1],))
    rows = np.arange(tq)[:, None] + (tk - tq)

    for j in range(0, tk, tile):
        s = q @ np.swapaxes(k[..., j:j + tile, :], -1, -2)
        if causal:
            cols = np.arange(j, min(j + tile, tk))[None, :]
            s = np.where(cols <= rows, s, -np.inf)
        m_new = np.maximum(m, s.max(-1, keepdims=True))
        # key 0 is in the first tile and seen by every query, m_new is finite
        p = np.exp(s - m_new)
        fix = np.exp(m - m_new)
        l = l * fix + p.sum(-1, keepdims=True)
        acc = acc * fix + p @ v[..., j:j + tile, :]
        m = m_new
    return acc / l


def multihead(x, w_qkv, w_out, heads, causal=True):
    """x (B, T, C); w_qkv (C, 3C) columns q | k | v; w_out (C, C)."""
    b, t, c = x.shape
    q, k, v = np.split(x @ w_qkv, 3, axis=-1)
    q, k, v = (a.reshape(b, t, heads, -1).swapaxes(1, 2) for a in (q, k, v))
    y = tiled_attention(q, k, v, causal=causal)
    return y.swapaxes(1, 2).reshape(b, t, c) @ w_out

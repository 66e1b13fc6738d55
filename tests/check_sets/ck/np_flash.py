"""FlashAttention forward pass (Dao et al. 2022, Algorithm 1) emulated in NumPy.

Never holds more than a (block_q, block_k) tile of scores.
"""
import numpy as np


def flash_forward(q, k, v, causal=False, block_q=4, block_k=4):
    """
    q, k, v: (batch, heads, n, d), the same n for all three.
    causal:  position i sees 0..i
    returns  o (batch, heads, n, d) and the log-sum-exp of each row (batch, heads, n)
    """
    b, h, n, d = q.shape
    scale = 1.0 / np.sqrt(d)
    o = np.zeros_like(v)
    lse = np.zeros((b, h, n), dtype=q.dtype)
    for i0 in range(0, n, block_q):
        i1 = min(i0 + block_q, n)
        qi = q[:, :, i0:i1] * scale
        m = np.full((b, h, i1 - i0, 1), -np.inf, dtype=q.dtype)
        l = np.zeros((b, h, i1 - i0, 1), dtype=q.dtype)
        acc = np.zeros((b, h, i1 - i0, v.shape[-1]), dtype=v.dtype)
        for j0 in range(0, n, block_k):
            j1 = min(j0 + block_k, n)
            if causal and j0 > i1 - 1:
                break
            s = qi @ k[:, :, j0:j1].swapaxes(-1, -2)
            if causal:
                rows = np.arange(i0, i1)[:, None]
                cols = np.arange(j0, j1)[None, :]
                s = np.where(cols <= rows, s, -np.inf)
            m_new = np.maximum(m, s.max(axis=-1, keepdims=True))
            p = np.exp(s - m_new)
            alpha = np.exp(m - m_new)
            l = alpha * l + p.sum(axis=-1, keepdims=True)
            acc = alpha * acc + p @ v[:, :, j0:j1]
            m = m_new
        o[:, :, i0:i1] = acc / l
        lse[:, :, i0:i1] = (m + np.log(l))[..., 0]
    return o, lse

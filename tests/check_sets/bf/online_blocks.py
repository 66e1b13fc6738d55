"""Blockwise attention in pure NumPy, to explain FlashAttention to my students.

Never holds the whole score matrix. All arrays are (L, d) for one head.
"""
import numpy as np


def blocks(n, size):
    for s in range(0, n, size):
        yield s, min(s + size, n)


def flash_forward(Q, K, V, q_block=4, k_block=4, causal=False):
    """Returns O (Lq, dv) and the natural log-sum-exp of each row (Lq,).

    causal: query i sees the keys j <= i + (Lk - Lq).
    """
    Lq, d = Q.shape
    Lk = K.shape[0]
    scale = 1.0 / np.sqrt(d)
    O = np.zeros((Lq, V.shape[1]))
    lse = np.zeros(Lq)
    shift = Lk - Lq
    for a, b in blocks(Lq, q_block):
        m = np.full(b - a, -np.inf)
        l = np.zeros(b - a)
        acc = np.zeros((b - a, V.shape[1]))
        for c, e in blocks(Lk, k_block):
            if causal and c > b - 1 + shift:
                break                      # whole block is in the future
            S = Q[a:b] @ K[c:e].T * scale
            if causal:
                i = np.arange(a, b)[:, None] + shift
                S = np.where(np.arange(c, e)[None, :] <= i, S, -np.inf)
            m_new = np.maximum(m, S.max(axis=1))
            safe = np.where(np.isfinite(m_new), m_new, 0.0)
            P = np.exp(S - safe[:, None])
            r = np.exp(m - safe)
            l = l * r + P.sum(axis=1)
            acc = acc * r[:, None] + P @ V[c:e]
            m = m_new
        with np.errstate(divide="ignore"):
            lse[a:b] = np.where(np.isfinite(m), m, 0.0) + np.log(l)
        O[a:b] = acc / np.where(l > 0, l, 1.0)[:, None]   # a row without keys gives 0
    return O, lse


def count_bytes(Lq, Lk, q_block, k_block, d):
    """Working set, for the slide."""
    return 8 * (q_block * d + 2 * k_block * d + q_block * k_block)


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(10, 8)) for _ in range(3))
    o, z = flash_forward(q, k, v, causal=True)
    print(o.shape, z[:3], count_bytes(10, 10, 4, 4, 8))

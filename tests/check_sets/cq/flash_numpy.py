"""FlashAttention forward in NumPy, for the blog post.

Everything is processed in tiles, the full score matrix never exists.
Notation as in Dao 2023 (FlashAttention-2), algorithm 1.
"""
import numpy as np


def flash_attention_forward(Q, K, V, block_q=4, block_k=3, causal=False, scale=None):
    """
    Q: (Lq, d), K: (Lk, d), V: (Lk, dv).
    causal: query i sits at position Lk - Lq + i and sees keys 0 .. Lk - Lq + i (needs Lk >= Lq).
    Returns O (Lq, dv) and the log-sum-exp L (Lq,).
    """
    Lq, d = Q.shape
    Lk, dv = K.shape[0], V.shape[1]
    if V.shape[0] != Lk:
        raise ValueError("K and V must have the same length")
    if causal and Lk < Lq:
        raise ValueError("causal attention needs Lk >= Lq")
    scale = 1.0 / np.sqrt(d) if scale is None else scale
    shift = Lk - Lq

    O = np.zeros((Lq, dv))
    L = np.zeros(Lq)
    for i0 in range(0, Lq, block_q):
        i1 = min(i0 + block_q, Lq)
        Qi = Q[i0:i1] * scale
        m = np.full(i1 - i0, -np.inf)
        l = np.zeros(i1 - i0)
        acc = np.zeros((i1 - i0, dv))
        # the last visible key of this tile of queries
        end = min(Lk, i1 + shift) if causal else Lk
        for j0 in range(0, end, block_k):
            j1 = min(j0 + block_k, end)
            S = Qi @ K[j0:j1].T
            if causal:
                rows = np.arange(i0, i1)[:, None] + shift
                cols = np.arange(j0, j1)[None, :]
                S = np.where(cols <= rows, S, -np.inf)
            m_new = np.maximum(m, S.max(axis=1))
            P = np.exp(S - m_new[:, None])
            alpha = np.exp(m - m_new)
            l = alpha * l + P.sum(axis=1)
            acc = alpha[:, None] * acc + P @ V[j0:j1]
            m = m_new
        O[i0:i1] = acc / l[:, None]
        L[i0:i1] = m + np.log(l)
    return O, L


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    q, k, v = rng.normal(size=(7, 8)), rng.normal(size=(10, 8)), rng.normal(size=(10, 5))
    o, lse = flash_attention_forward(q, k, v, causal=True)
    print(o.shape, lse.shape)

"""FlashAttention paper, Algorithm 1, rewritten in NumPy for my reading group.

Symbols as in the paper: B_r, B_c tile sizes, m_i running row max, l_i running
row sum, O_i running output.  I keep O_i unnormalised and divide once at the end
(this is what FlashAttention-2 does).
"""
import numpy as np


def tiled_attention(Q, K, V, keep=None, B_r=32, B_c=32):
    """One head.

    Q (N, d), K (M, d), V (M, d_v).
    keep (N, M) bool or None: True = this query may look at this key.
    A query with no key at all gets a row of zeros.
    Result (N, d_v): softmax(Q K^T / sqrt(d)) V.
    """
    N, d = Q.shape
    M = K.shape[0]
    O = np.zeros((N, V.shape[1]))
    tau = 1.0 / np.sqrt(d)
    for i in range(0, N, B_r):
        Qi = Q[i:i + B_r]
        rows = len(Qi)
        Oi = np.zeros((rows, V.shape[1]))
        li = np.zeros((rows, 1))
        mi = np.full((rows, 1), -np.inf)
        for j in range(0, M, B_c):
            Sij = tau * Qi @ K[j:j + B_c].T
            if keep is not None:
                Sij = np.where(keep[i:i + B_r, j:j + B_c], Sij, -np.inf)
            m_new = np.maximum(mi, Sij.max(axis=1, keepdims=True))
            # while nothing was seen the max is -inf; use 0 so that no inf - inf occurs
            m_safe = np.where(np.isfinite(m_new), m_new, 0.0)
            Pij = np.exp(Sij - m_safe)
            corr = np.exp(mi - m_safe)
            li = corr * li + Pij.sum(axis=1, keepdims=True)
            Oi = corr * Oi + Pij @ V[j:j + B_c]
            mi = m_new
        O[i:i + B_r] = Oi / np.where(li > 0, li, 1.0)
    return O

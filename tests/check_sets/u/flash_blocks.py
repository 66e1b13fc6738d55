import numpy as np


def flash_attention(Q, K, V, block_q=4, block_k=3, causal=False):
    """Tiled exact attention after Dao et al. (2022), Algorithm 1, forward pass.

    Q: (N, d), K: (M, d), V: (M, dv). With causal=True the last query lines up with the last key.
    Returns O: (N, dv) and the natural log-sum-exp of each row: (N,).
    """
    N, d = Q.shape
    M = K.shape[0]
    tau = 1.0 / np.sqrt(d)
    O = np.zeros((N, V.shape[1]), dtype=Q.dtype)
    L = np.zeros(N, dtype=Q.dtype)
    for i0 in range(0, N, block_q):
        i1 = min(i0 + block_q, N)
        Qi = Q[i0:i1] * tau
        m = np.full(i1 - i0, -1e30)
        l = np.zeros(i1 - i0)
        acc = np.zeros((i1 - i0, V.shape[1]))
        for j0 in range(0, M, block_k):
            j1 = min(j0 + block_k, M)
            if causal and j0 > i1 - 1 + M - N:
                break
            S = Qi @ K[j0:j1].T
            if causal:
                ok = np.arange(j0, j1)[None, :] <= np.arange(i0, i1)[:, None] + M - N
                S = np.where(ok, S, -np.inf)
            m_new = np.maximum(m, S.max(axis=1))
            P = np.exp(S - m_new[:, None])
            alpha = np.exp(m - m_new)
            l = l * alpha + P.sum(axis=1)
            acc = acc * alpha[:, None] + P @ V[j0:j1]
            m = m_new
        O[i0:i1] = acc / l[:, None]
        L[i0:i1] = m + np.log(l)
    return O, L

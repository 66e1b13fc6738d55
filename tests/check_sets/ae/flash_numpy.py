"""FlashAttention forward, written with plain loops to follow the paper's Algorithm 1."""
import numpy as np


def flash_forward(Q, K, V, Br=16, Bc=16, causal=False):
    """Q, K, V: (N, d), equal lengths. Returns O (N, d) and L (N,), the row log-sum-exp."""
    N, d = Q.shape
    O = np.zeros((N, V.shape[1]))
    L = np.zeros(N)
    tau = d ** -0.5
    for i in range(0, N, Br):
        Qi = Q[i:i + Br] * tau
        rows = np.arange(i, i + len(Qi))
        m = np.full(len(Qi), -np.inf)
        l = np.zeros(len(Qi))
        Oi = np.zeros((len(Qi), V.shape[1]))
        for j in range(0, N, Bc):
            if causal and j > rows[-1]:
                break
            S = Qi @ K[j:j + Bc].T
            if causal:
                cols = np.arange(j, j + S.shape[1])
                S[rows[:, None] < cols[None, :]] = -np.inf
            m_new = np.maximum(m, S.max(axis=1))
            P = np.exp(S - m_new[:, None])
            alpha = np.exp(m - m_new)
            l = alpha * l + P.sum(axis=1)
            Oi = alpha[:, None] * Oi + P @ V[j:j + Bc]
            m = m_new
        O[i:i + Br] = Oi / l[:, None]
        L[i:i + Br] = m + np.log(l)
    return O, L

import numpy as np


def flash_attention_forward(Q, K, V, block_q=4, block_k=4, causal=False):
    """FlashAttention-2, forward pass, in NumPy.

    Q (T, d), K (S, d), V (S, e) -> O (T, e), L (T,), where L is the natural log-sum-exp of each row of scores.
    """
    T, d = Q.shape
    S = K.shape[0]
    scale = d ** -0.5
    O = np.zeros((T, V.shape[1]))
    L = np.zeros(T)
    for i in range(0, T, block_q):
        q = Q[i : i + block_q] * scale
        rows = np.arange(i, min(i + block_q, T))
        acc = np.zeros((len(rows), V.shape[1]))
        m = np.full(len(rows), -np.inf)
        l = np.zeros(len(rows))
        for j in range(0, S, block_k):
            cols = np.arange(j, min(j + block_k, S))
            if causal and cols[0] > rows[-1] + S - T:
                break
            s = q @ K[cols].T
            if causal:
                s = np.where(cols[None, :] <= rows[:, None] + S - T, s, -np.inf)
            m_new = np.maximum(m, s.max(axis=1))
            safe = np.where(np.isneginf(m_new), 0.0, m_new)
            p = np.exp(s - safe[:, None])
            alpha = np.exp(m - safe)
            l = alpha * l + p.sum(axis=1)
            acc = alpha[:, None] * acc + p @ V[cols]
            m = m_new
        O[rows] = acc / l[:, None]
        L[rows] = m + np.log(l)
    return O, L

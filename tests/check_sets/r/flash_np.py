import numpy as np


def flash_attention(Q, K, V, block_q=4, block_k=3, causal=False):
    """Tiled attention with a running softmax (FlashAttention-2, algorithm 1).  Q (N, d), K and V (M, d).

    No row of scores is ever whole: m is the largest so far, l the sum so far, and both O and l are brought to the new
    m when it grows.  With causal, the last query is level with the last key, whatever N and M (N <= M).
    """
    N, d = Q.shape
    M = K.shape[0]
    out = np.zeros((N, V.shape[1]))
    for i in range(0, N, block_q):
        Qi = Q[i : i + block_q] / np.sqrt(d)
        O = np.zeros((len(Qi), V.shape[1]))
        m = np.full((len(Qi), 1), -np.inf)
        l = np.zeros((len(Qi), 1))
        rows = np.arange(i, i + len(Qi))[:, None] + (M - N)
        for j in range(0, M, block_k):
            S = Qi @ K[j : j + block_k].T
            if causal:
                cols = np.arange(j, j + S.shape[1])[None, :]
                if j > rows.max():
                    break
                S = np.where(cols <= rows, S, -np.inf)
            m_new = np.maximum(m, S.max(axis=1, keepdims=True))
            P = np.exp(S - m_new)
            fix = np.exp(m - m_new)
            l = fix * l + P.sum(axis=1, keepdims=True)
            O = fix * O + P @ V[j : j + block_k]
            m = m_new
        out[i : i + block_q] = O / l
    return out

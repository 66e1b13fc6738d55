import numpy as np


def tiled_attention(Q, K, V, tile=4, causal=False):
    """Exact softmax attention without the full score matrix (toy FlashAttention).

    Q: (N, d), K: (M, d), V: (M, e) -> (N, e). For causal the sequences are
    aligned at their ends (the last query sees every key), M >= N.
    """
    N, d = Q.shape
    M = K.shape[0]
    scale = 1.0 / np.sqrt(d)
    m = np.full((N, 1), -np.inf)
    l = np.zeros((N, 1))
    acc = np.zeros((N, V.shape[1]))
    qpos = np.arange(N)[:, None] + (M - N)

    for j in range(0, M, tile):
        S = (Q @ K[j:j + tile].T) * scale
        if causal:
            kpos = np.arange(j, min(j + tile, M))[None, :]
            S = np.where(kpos <= qpos, S, -np.inf)
        m_new = np.maximum(m, S.max(axis=1, keepdims=True))
        P = np.exp(S - m_new)
        fix = np.exp(m - m_new)
        l = l * fix + P.sum(axis=1, keepdims=True)
        acc = acc + P @ V[j:j + tile]
        m = m_new
    return acc / l

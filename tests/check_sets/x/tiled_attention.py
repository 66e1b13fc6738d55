"""FlashAttention-2 forward pass in NumPy, for reading.  (blog post: "flash attention without the GPU")"""
import numpy as np


def flash_forward(Q, K, V, causal=False, Br=4, Bc=4):
    """
    Q: (B, H, N, d)   K, V: (B, H, M, d)
    returns O (B, H, N, d) and the log-sum-exp L (B, H, N)
    With causal=True the last query is aligned with the last key.
    """
    B, H, N, d = Q.shape
    M = K.shape[2]
    O = np.zeros_like(Q)
    L = np.zeros((B, H, N), dtype=Q.dtype)
    scale = 1.0 / np.sqrt(d)

    for i in range(0, N, Br):
        q_i = Q[:, :, i:i + Br]
        n = q_i.shape[2]
        acc = np.zeros_like(q_i)
        l_i = np.zeros((B, H, n), dtype=Q.dtype)
        m_i = np.full((B, H, n), -np.inf, dtype=Q.dtype)
        rows = np.arange(i, i + n)[:, None] + (M - N)

        for j in range(0, M, Bc):
            if causal and j > i + n - 1 + (M - N):
                break  # tile lies above the diagonal
            k_j, v_j = K[:, :, j:j + Bc], V[:, :, j:j + Bc]
            s = (q_i @ k_j.transpose(0, 1, 3, 2)) * scale
            if causal:
                cols = np.arange(j, j + k_j.shape[2])[None, :]
                s = np.where(cols <= rows, s, -np.inf)
            m_new = np.maximum(m_i, s.max(axis=-1))
            p = np.exp(s - m_new[..., None])
            alpha = np.exp(m_i - m_new)
            l_i = alpha * l_i + p.sum(axis=-1)
            acc = alpha[..., None] * acc + p @ v_j
            m_i = m_new

        O[:, :, i:i + n] = acc / l_i[..., None]
        L[:, :, i:i + n] = m_i + np.log(l_i)
    return O, L

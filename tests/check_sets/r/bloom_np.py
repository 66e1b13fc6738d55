import numpy as np


def alibi_slopes(n_heads):
    assert n_heads & (n_heads - 1) == 0, "a power of two"
    return 2.0 ** (-8.0 * np.arange(1, n_heads + 1) / n_heads)


def bloom_attention(q, k, v):
    """Causal attention with linear biases (ALiBi): the farther back a key, the more it is penalised.

        softmax(q_i . k_j / sqrt(d) - m_h * (i - j)),   j <= i

    q, k, v: (n_heads, T, d) -> (T, n_heads * d)
    """
    n_heads, T, d = q.shape
    i = np.arange(T)[:, None]
    j = np.arange(T)[None, :]
    scores = np.einsum("hid,hjd->hij", q, k) / np.sqrt(d)
    scores = scores + alibi_slopes(n_heads)[:, None, None] * (i - j)
    scores = np.where(j <= i, scores, -np.inf)
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    weights = scores / scores.sum(-1, keepdims=True)
    return np.einsum("hij,hjd->ihd", weights, v).reshape(T, n_heads * d)

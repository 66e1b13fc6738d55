import numpy as np


def char_attention(x, w):
    """Causal self-attention on one string.  x (n, d); w["q"], w["k"], w["v"] (d, d)"""
    q, k, v = x @ w["q"], x @ w["k"], x @ w["v"]
    n, d = q.shape
    scores = q @ k.T / np.sqrt(d)
    scores[np.triu_indices(n, 1)] = float("inf")
    scores -= scores.max(axis=1, keepdims=True)
    p = np.exp(scores)
    p /= p.sum(axis=1, keepdims=True)
    return p @ v

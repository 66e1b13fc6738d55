import numpy as np


def masked_softmax_attention(q, k, v):
    """Causal attention, (heads, tokens, dim)."""
    n = q.shape[-2]
    s = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
    upper = np.triu(np.ones((n, n), dtype=bool), 1)
    s[:, upper] = np.inf
    s = s - s.max(-1, keepdims=True)
    p = np.exp(s)
    p = p / p.sum(-1, keepdims=True)
    return p @ v

import numpy as np


def attention(Q, K, V):
    """Scaled dot-product attention.  Q: (n, d), K: (m, d), V: (m, e)."""
    d = Q.shape[1]
    scores = Q @ K.T / np.sqrt(d)
    scores = scores - scores.max(axis=1, keepdims=True)
    e = np.exp(scores)
    return (e / e.sum(axis=1, keepdims=True)) @ V

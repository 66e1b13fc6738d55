import numpy as np


def attn(Q, K, V):
    """Q, K, V have shape (batch, seq, dim)."""
    scores = Q @ K.T / np.sqrt(Q.shape[-1])
    scores -= scores.max(axis=-1, keepdims=True)
    probs = np.exp(scores)
    probs /= probs.sum(axis=-1, keepdims=True)
    return probs @ V

"""Cross-attention from patients to drugs (toy scorer, numpy only)."""
import numpy as np


def stable_softmax(z, axis=-1):
    z = z - np.max(z, axis=axis, keepdims=True)
    z = np.exp(z)
    return z / np.sum(z, axis=axis, keepdims=True)


def scaled_dot_product(Q, K, V, heads=1):
    """
    Scaled dot-product attention, softmax(Q K^T / sqrt(d)) V per head, d = channels of one head.

    Q : (batch, patients, channels)
    K : (batch, drugs, channels)
    V : (batch, drugs, channels)
    """
    B, P, C = Q.shape
    D = K.shape[1]
    assert K.shape == V.shape and C % heads == 0

    def split(a, n):
        return a.reshape(B, n, heads, C // heads).transpose(0, 2, 1, 3)

    q, k, v = split(Q, P), split(K, D), split(V, D)
    scores = q @ k.transpose(0, 1, 3, 2)
    scores = scores / np.sqrt(k.shape[-2])
    weights = stable_softmax(scores)
    out = weights @ v
    return out.transpose(0, 2, 1, 3).reshape(B, P, C)

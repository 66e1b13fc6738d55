import numpy as np


def stable_softmax(x):
    """Numerically stable softmax over the last axis."""
    shifted = x - np.max(x)
    e = np.exp(shifted)
    return e / e.sum(axis=-1, keepdims=True)


def stable_attention(q, k, v, mask=None):
    """mask (q_len, k_len) is True where attention is allowed."""
    s = q @ k.swapaxes(-2, -1) / q.shape[-1] ** 0.5
    if mask is not None:
        s = np.where(mask, s, -1e30)
    return stable_softmax(s) @ v

import numpy as np


def tiled_attention(q, k, v, tile=2):
    """Exact softmax attention, one tile of keys at a time. q (T, D), k (S, D), v (S, E)."""
    T, D = q.shape
    acc = np.zeros((T, v.shape[1]))
    top = np.full((T, 1), -np.inf)
    norm = np.zeros((T, 1))
    for j in range(0, len(k), tile):
        s = q @ k[j:j + tile].T / np.sqrt(D)
        new = np.maximum(top, s.max(axis=1, keepdims=True))
        fix = np.exp(top - new)
        w = np.exp(s - new)
        norm = norm * fix + w.sum(axis=1, keepdims=True)
        acc = acc + w @ v[j:j + tile]
        top = new
    return acc / norm

import numpy as np


def longformer_attention(Q, K, V, w, n_global=1):
    """Longformer pattern for one sequence.

    Q, K, V: (heads, n, d). Every token sees the w tokens to its left, itself and the w
    tokens to its right; the first n_global tokens see all and are seen by all.
    Returns (heads, n, d).
    """
    heads, n, d = Q.shape
    out = np.empty_like(V)
    globals_ = np.arange(min(n_global, n))
    for i in range(n):
        if i < n_global:
            cols = np.arange(n)
        else:
            near = np.arange(max(0, i - w), min(n, i + w + 1))
            cols = np.union1d(globals_, near)
        s = np.einsum("hd,hkd->hk", Q[:, i], K[:, cols]) / np.sqrt(d)
        s = np.exp(s - s.max(axis=-1, keepdims=True))
        out[:, i] = np.einsum("hk,hkd->hd", s / s.sum(axis=-1, keepdims=True), V[:, cols])
    return out

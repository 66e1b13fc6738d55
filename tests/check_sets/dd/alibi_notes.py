"""Notes on ALiBi (Press, Smith, Lewis 2022): a head-specific penalty, linear in how far back the key is."""
import numpy as np


def slopes(n_heads):
    """n_heads is a power of two."""
    return 2.0 ** (-8.0 * np.arange(1, n_heads + 1) / n_heads)


def softmax_rows(a):
    a = np.exp(a - a.max(axis=-1, keepdims=True))
    return a / a.sum(axis=-1, keepdims=True)


def alibi_attention(q, k, v):
    """q, k, v: (n_heads, L, d). Query i sees keys 0..i. Returns (n_heads, L, d)."""
    H, L, d = q.shape
    i, j = np.arange(L)[:, None], np.arange(L)[None, :]
    bias = slopes(H)[:, None, None] * (i - j)
    s = np.einsum("hid,hjd->hij", q, k) / np.sqrt(d) + bias
    s = np.where(j <= i, s, -np.inf)
    return softmax_rows(s) @ v

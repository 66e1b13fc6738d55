import numpy as np


def rotate(x, positions, base=10000.0):
    """Turns the pairs (x[2i], x[2i+1]) by positions * base ** (-2i / d).  x: (heads, length, d)"""
    d = x.shape[-1]
    angles = np.outer(positions, base ** (-np.arange(0, d, 2) / d))
    cos, sin = np.cos(angles), np.sin(angles)
    even, odd = x[..., 0::2], x[..., 1::2]
    out = np.empty_like(x)
    out[..., 0::2] = even * cos - odd * sin
    out[..., 1::2] = even * sin + odd * cos
    return out


def rotary_attention(q, k, v):
    """Attention whose scores depend on content and on the distance i - j only."""
    pos = np.arange(q.shape[1])
    q = rotate(q, pos)
    k = rotate(k, -pos)
    s = np.einsum("htd,hsd->hts", q, k) / np.sqrt(q.shape[-1])
    e = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("hts,hsd->htd", e / e.sum(-1, keepdims=True), v)

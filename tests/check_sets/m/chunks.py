import numpy as np


def chunked_attention(q, k, v, chunk):
    """Block-local attention: the sequence is cut in chunks of `chunk` positions, each attends only inside itself.

    q, k, v: (batch, length, dim); length is a multiple of chunk.
    """
    b, n, d = q.shape
    c = lambda x: x.reshape(b, n // chunk, chunk, -1)
    s = np.einsum("bcid,bcjd->bcij", c(q), c(k)) * d ** -0.5
    s = np.exp(s - s.max(axis=3, keepdims=True))
    s = s / s.sum(axis=3, keepdims=True)
    return np.einsum("bcij,bcjd->bcid", s, c(v)).reshape(b, n, -1)

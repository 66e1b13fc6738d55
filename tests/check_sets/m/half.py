import numpy as np


def half_attention(q, k, v):
    """q, k, v: float16 arrays (batch, length, dim) -> float16."""
    s = np.matmul(q, k.swapaxes(1, 2)) * q.dtype.type(q.shape[-1] ** -0.5)
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    p = e / np.cumsum(e, axis=-1)[..., -1:]
    return np.matmul(p, v).astype(np.float16)

"""Attention with linear biases (Press et al., ICLR 2022), numpy inference path."""
import math

import numpy as np


def slopes(n):
    """Geometric head slopes; number of heads need not be a power of two."""
    def pow2(n):
        ratio = 2.0 ** (-8.0 / n)
        return [ratio ** i for i in range(n)]

    if math.log2(n).is_integer():
        return np.array(pow2(n))
    m = 2 ** math.floor(math.log2(n))
    return np.array(pow2(m) + pow2(2 * m)[0::2][: n - m])


def alibi_attention(q, k, v):
    """q, k, v: (batch, heads, length, dim), causal. Returns (batch, heads, length, dim)."""
    h, L, d = q.shape[1:]
    pos = np.arange(L)
    rel = pos[None, :] - pos[:, None]            # <= 0 for the past
    bias = slopes(h)[:, None, None] * rel
    logits = q @ np.swapaxes(k, -1, -2) / math.sqrt(d) + bias
    logits = np.where(rel > 0, -np.inf, logits)
    logits -= logits.max(-1, keepdims=True)
    p = np.exp(logits)
    p /= p.sum(-1, keepdims=True)
    return p @ v

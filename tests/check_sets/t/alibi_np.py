import numpy as np


def steigungen(h):
    # power-of-two number of heads
    return 2.0 ** (-8.0 * np.arange(1, h + 1) / h)


def alibi_attention(q, k, v):
    # q, k, v: (heads, length, head_dim), causal, linear penalty on distance
    h, n, d = q.shape
    i = np.arange(n)[:, None]
    j = np.arange(n)[None, :]
    s = q @ k.swapaxes(-1, -2) / np.sqrt(d)
    s = s + steigungen(h)[:, None, None] * (i - j)
    s = np.where(j > i, -np.inf, s)
    s = s - s.max(axis=-1, keepdims=True)
    p = np.exp(s)
    p = p / p.sum(axis=-1, keepdims=True)
    return p @ v

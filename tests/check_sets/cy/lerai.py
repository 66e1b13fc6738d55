import numpy as np


def _p2(n):
    return [2.0 ** (-8.0 * (i + 1) / n) for i in range(n)]


def slopes(n):
    """ALiBi slopes; for n that is no power of two, fill up from the next series."""
    m = 1
    while 2 * m <= n:
        m *= 2
    return np.array(_p2(m) + _p2(2 * m)[0::2][: n - m])


def lerai(q, k, v):
    """Causal attention with linear distance penalty.

    q (B, H, Lq, d); k, v (B, H, Lk, d), Lk >= Lq: the queries are the last Lq
    positions of the key sequence (the first Lk - Lq keys come from a cache).
    """
    H, Lq, d = q.shape[1:]
    Lk = k.shape[2]
    qp = np.arange(Lk - Lq, Lk)[:, None]
    kp = np.arange(Lk)[None, :]
    s = np.einsum("bhid,bhjd->bhij", q, k) / np.sqrt(d)
    s = s - slopes(H)[:, None, None] * (qp - kp)
    s = np.where(kp > qp, -np.inf, s)
    s = s - s.max(axis=-1, keepdims=True)
    e = np.exp(s)
    return np.einsum("bhij,bhjd->bhid", e / e.sum(axis=-1, keepdims=True), v)

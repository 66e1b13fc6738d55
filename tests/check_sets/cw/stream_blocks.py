import numpy as np


def blockwise_attention(q, k, v, block=16, causal=False):
    """Exact softmax attention without ever holding the (Lq, Lk) matrix.

    q (..., Lq, D), k (..., Lk, D), v (..., Lk, Dv).
    With ``causal=True`` the queries are the last Lq positions of the sequence, so query i
    may look at keys 0 .. i + Lk - Lq.  A query that may look at nothing returns zeros.
    """
    q, k, v = (np.asarray(a, dtype=np.float64) for a in (q, k, v))
    lq, lk = q.shape[-2], k.shape[-2]
    if v.shape[-2] != lk:
        raise ValueError("k and v must have the same length")
    scale = 1.0 / np.sqrt(q.shape[-1])
    row_max = np.full(q.shape[:-1] + (1,), -np.inf)
    row_sum = np.zeros(q.shape[:-1] + (1,))
    acc = np.zeros(q.shape[:-1] + (v.shape[-1],))
    limit = np.arange(lq)[:, None] + (lk - lq)

    for start in range(0, lk, block):
        stop = min(start + block, lk)
        s = (q @ np.swapaxes(k[..., start:stop, :], -1, -2)) * scale
        if causal:
            s = np.where(np.arange(start, stop)[None, :] <= limit, s, -np.inf)
        new_max = np.maximum(row_max, s.max(axis=-1, keepdims=True))
        safe = np.where(np.isfinite(new_max), new_max, 0.0)
        p = np.exp(s - safe)
        shrink = np.exp(row_max - safe)
        row_sum = row_sum * shrink + p.sum(axis=-1, keepdims=True)
        acc = acc * shrink + p @ v[..., start:stop, :]
        row_max = new_max

    return np.divide(acc, row_sum, out=np.zeros_like(acc), where=row_sum > 0)

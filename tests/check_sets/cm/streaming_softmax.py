"""Attention over key blocks with a running maximum, NumPy (for the lecture on FlashAttention)."""
import numpy as np


def attention_blockwise(q, k, v, key_mask=None, causal=False, block=3):
    """q (..., Lq, d), k (..., Lk, d), v (..., Lk, dv) -> (..., Lq, dv).

    key_mask: (..., Lk) bool, True = the key may be read. causal: query i may read
    keys up to i + Lk - Lq (both sequences end together). Rows that may read
    nothing come out as zeros.
    """
    Lq, d = q.shape[-2:]
    Lk = k.shape[-2]
    lead = np.broadcast_shapes(q.shape[:-2], k.shape[:-2])
    m = np.full(lead + (Lq, 1), -np.inf)
    denom = np.zeros(lead + (Lq, 1))
    acc = np.zeros(lead + (Lq, v.shape[-1]))
    rows = np.arange(Lq)[:, None] + (Lk - Lq)

    for start in range(0, Lk, block):
        stop = min(start + block, Lk)
        s = q @ np.swapaxes(k[..., start:stop, :], -1, -2) / np.sqrt(d)
        ok = np.ones(s.shape, dtype=bool)
        if key_mask is not None:
            ok &= key_mask[..., None, start:stop]
        if causal:
            ok &= np.arange(start, stop)[None, :] <= rows
        s = np.where(ok, s, -np.inf)

        m_new = np.maximum(m, s.max(axis=-1, keepdims=True))
        safe = np.where(np.isfinite(m_new), m_new, 0.0)
        p = np.exp(s - safe)
        shrink = np.exp(m - safe)  # exp(-inf) = 0 while nothing has been read
        denom = denom * shrink + p.sum(axis=-1, keepdims=True)
        acc = acc * shrink + p @ v[..., start:stop, :]
        m = m_new

    return acc / np.where(denom > 0, denom, 1.0)


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(2, 7, 4)) for _ in range(3))
    print(attention_blockwise(q, k, v, causal=True).round(3))

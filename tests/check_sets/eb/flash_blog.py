"""Companion code of the blog post "FlashAttention with a pencil".

Tiles of keys are visited one after the other; per query row only the running maximum m, the
running sum l and the unnormalised output acc are kept.  As on the GPU everything is in base 2:
logits are multiplied by log2(e) once and 2**x replaces e**x, so the result equals
softmax(q k^T / sqrt(d)) v exactly (up to rounding).  Causal for causal=True (Lq == Lk then).
"""
import numpy as np

LOG2E = 1.4426950408889634


def flash(q, k, v, bq=4, bk=3, causal=False):
    """q [Lq, d], k [Lk, d], v [Lk, e]  ->  out [Lq, e], lse [Lq] (natural logarithm)"""
    Lq, d = q.shape
    Lk = k.shape[0]
    out = np.empty((Lq, v.shape[1]))
    lse = np.empty(Lq)
    for a in range(0, Lq, bq):
        rows = np.arange(a, min(a + bq, Lq))
        qt = q[rows] * (LOG2E / np.sqrt(d))
        m = np.full(len(rows), -np.inf)
        l = np.zeros(len(rows))
        acc = np.zeros((len(rows), v.shape[1]))
        for b in range(0, Lk, bk):
            cols = np.arange(b, min(b + bk, Lk))
            if causal and cols[0] > rows[-1]:
                break                               # this tile lies in the future of every row
            s = qt @ k[cols].T
            if causal:
                s = np.where(cols[None, :] > rows[:, None], -np.inf, s)
            m_new = np.maximum(m, s.max(1))         # finite from the first tile on: key 0 is seen by all
            p = np.exp2(s - m_new[:, None])
            fix = np.exp2(m - m_new)
            l = l * fix + p.sum(1)
            acc = acc * fix[:, None] + p @ v[cols]
            m = m_new
        out[rows] = acc / l[:, None]
        lse[rows] = (m + np.log2(l)) / LOG2E
    return out, lse

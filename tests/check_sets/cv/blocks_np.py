"""FlashAttention forward in numpy loops, written for the GPU programming seminar."""
import numpy as np


def flash(Q, K, V, causal=False, Br=4, Bc=3, return_lse=False):
    """Softmax(Q K^T / sqrt(d)) V computed tile by tile.

    Q [Lq, d], K [Lk, d], V [Lk, dv]; one head.
    causal: query i sees the keys j <= i + Lk - Lq (the last query is aligned with the last key).
    Query rows which see no key at all give zeros (and lse = -inf).
    return_lse: also return the natural log-sum-exp [Lq].
    """
    Lq, d = Q.shape
    Lk, dv = V.shape
    off = Lk - Lq
    O = np.zeros((Lq, dv))
    lse = np.full(Lq, -np.inf)

    for r in range(0, Lq, Br):
        q = Q[r:r + Br] / np.sqrt(d)
        n = len(q)
        m = np.full(n, -np.inf)
        l = np.zeros(n)
        acc = np.zeros((n, dv))
        for c in range(0, Lk, Bc):
            if causal and c > r + n - 1 + off:
                break                                   # tile wholly in the future
            s = q @ K[c:c + Bc].T
            if causal:
                i = np.arange(r, r + n)[:, None] + off
                j = np.arange(c, c + s.shape[1])[None, :]
                s = np.where(j <= i, s, -np.inf)
            m_new = np.maximum(m, s.max(1))
            safe = np.where(np.isneginf(m_new), 0.0, m_new)
            p = np.exp(s - safe[:, None])
            alpha = np.exp(m - safe)                    # 0 in the first tile
            l = alpha * l + p.sum(1)
            acc = alpha[:, None] * acc + p @ V[c:c + Bc]
            m = m_new
        some = l > 0
        O[r:r + n][some] = acc[some] / l[some, None]
        lse[r:r + n][some] = m[some] + np.log(l[some])

    return (O, lse) if return_lse else O

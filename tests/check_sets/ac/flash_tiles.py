"""FlashAttention-2 forward pass as a numpy loop over tiles. Slow, but you can print everything.

    python flash_tiles.py
"""
import numpy as np


def flash_attention(Q, K, V, block_q=16, block_k=16, causal=False, scale=None):
    """Q (..., N, d), K and V (..., M, d). With causal=True and M > N the queries are the last N positions.

    Returns the output and the log-sum-exp of every row.
    """
    N, d = Q.shape[-2:]
    M = K.shape[-2]
    if scale is None:
        scale = d ** -0.5
    shift = M - N
    O = np.zeros(Q.shape[:-1] + (V.shape[-1],))
    L = np.zeros(Q.shape[:-1])

    for r0 in range(0, N, block_q):
        r1 = min(r0 + block_q, N)
        q = Q[..., r0:r1, :] * scale
        acc = np.zeros(q.shape[:-1] + (V.shape[-1],))
        l = np.zeros(q.shape[:-1])
        m = np.full(q.shape[:-1], -np.inf)

        for c0 in range(0, M, block_k):
            if causal and c0 > r1 - 1 + shift:
                break                                    # the whole tile lies in the future
            c1 = min(c0 + block_k, M)
            s = q @ np.swapaxes(K[..., c0:c1, :], -1, -2)
            if causal:
                rows = np.arange(r0, r1)[:, None] + shift
                cols = np.arange(c0, c1)[None, :]
                s = np.where(cols <= rows, s, -np.inf)
            m_new = np.maximum(m, s.max(axis=-1))
            alpha = np.exp(m - m_new)                    # exp(-inf) = 0 in the first tile
            p = np.exp(s - m_new[..., None])
            l = alpha * l + p.sum(axis=-1)
            acc = alpha[..., None] * acc + p @ V[..., c0:c1, :]
            m = m_new

        O[..., r0:r1, :] = acc / l[..., None]
        L[..., r0:r1] = m + np.log(l)
    return O, L


class FlashMHA:
    def __init__(self, d_model, n_heads, rng):
        self.h = n_heads
        self.w = [rng.normal(0, d_model ** -0.5, (d_model, d_model)) for _ in range(4)]

    def __call__(self, x, causal=True):
        b, n, dm = x.shape
        q, k, v = [np.moveaxis((x @ w).reshape(b, n, self.h, -1), 2, 1) for w in self.w[:3]]
        o, _ = flash_attention(q, k, v, block_q=4, block_k=3, causal=causal)
        return np.moveaxis(o, 1, 2).reshape(b, n, dm) @ self.w[3]


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 10, 8))
    print(FlashMHA(8, 2, rng)(x).round(3)[0])

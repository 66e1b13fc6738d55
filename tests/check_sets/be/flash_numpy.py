"""Educational FlashAttention forward pass in plain NumPy (one head).

    O, L = flash_forward(Q, K, V, causal=True)

L is the row-wise natural log-sum-exp of the scaled scores.
With causal=True and a shorter Q, the queries are the *last* rows of the sequence.
Needs len(Q) <= len(K) when causal.
"""
import numpy as np


def ceil_div(a, b):
    return -(-a // b)


def flash_forward(Q, K, V, causal=False, Br=4, Bc=3, scale=None):
    N, d = Q.shape
    M = K.shape[0]
    assert V.shape[0] == M, "K and V differ in length"
    assert not causal or N <= M
    scale = d ** -0.5 if scale is None else scale
    shift = M - N

    O = np.zeros((N, V.shape[1]))
    L = np.zeros(N)

    for i in range(ceil_div(N, Br)):
        r0, r1 = i * Br, min((i + 1) * Br, N)
        Qi = Q[r0:r1]
        m = np.full(r1 - r0, -np.inf)
        l = np.zeros(r1 - r0)
        acc = np.zeros((r1 - r0, V.shape[1]))

        for j in range(ceil_div(M, Bc)):
            c0, c1 = j * Bc, min((j + 1) * Bc, M)
            if causal and c0 > r1 - 1 + shift:
                break
            S = (Qi @ K[c0:c1].T) * scale
            if causal:
                rows = np.arange(r0, r1)[:, None] + shift
                cols = np.arange(c0, c1)[None, :]
                S = np.where(cols <= rows, S, -np.inf)

            # column block 0 always holds a visible key, so m_new is finite
            m_new = np.maximum(m, S.max(axis=1))
            P = np.exp(S - m_new[:, None])
            corr = np.exp(m - m_new)
            l = corr * l + P.sum(axis=1)
            acc = corr[:, None] * acc + P @ V[c0:c1]
            m = m_new

        O[r0:r1] = acc / l[:, None]
        L[r0:r1] = m + np.log(l)
    return O, L


def hbm_traffic(N, d, Br):
    """Reads of K and V by the tiled loop, in elements."""
    return 2 * N * d * ceil_div(N, Br) + 2 * N * d


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    q, k, v = rng.normal(size=(3, 10, 8))
    o, lse = flash_forward(q, k, v, causal=True)
    print(o.shape, lse[:3], hbm_traffic(10, 8, 4))

"""
lesson 11 / part B
==================

FlashAttention forward pass on paper-sized tiles, in NumPy so that one can print every step.
Result must equal  softmax(Q K^T / sqrt(d)) V.

Symbols as in Algorithm 1 of the paper: O_i, l_i, m_i live in "HBM" (the big arrays), a tile of them is
brought to "SRAM" (local names).
"""
import math

import numpy as np


def plan_tiles(n, size):
    return [(a, min(a + size, n)) for a in range(0, n, size)]


def flash_forward(Q, K, V, Br=4, Bc=4, causal=False, trace=None):
    """Q (N, d), K (M, d), V (M, dv).  Returns O (N, dv) and L = m + log l.

    causal: query i sees keys 0 .. i + (M - N).
    """
    N, d = Q.shape
    M = K.shape[0]
    tau = 1.0 / math.sqrt(d)
    O = np.zeros((N, V.shape[1]))
    l = np.zeros(N)
    m = np.full(N, -np.inf)

    for r0, r1 in plan_tiles(N, Br):
        Qi = Q[r0:r1] * tau
        Oi = O[r0:r1].copy()
        li, mi = l[r0:r1].copy(), m[r0:r1].copy()
        for c0, c1 in plan_tiles(M, Bc):
            if causal and c0 > (r1 - 1) + (M - N):
                break                                   # tile entirely in the future
            Sij = Qi @ K[c0:c1].T
            if causal:
                i = np.arange(r0, r1)[:, None] + (M - N)
                j = np.arange(c0, c1)[None, :]
                Sij = np.where(j <= i, Sij, -np.inf)
            m_new = np.maximum(mi, Sij.max(axis=1))
            Pij = np.exp(Sij - m_new[:, None])
            alpha = np.exp(mi - m_new)
            li = alpha * li + Pij.sum(axis=1)
            Oi = Oi + Pij @ V[c0:c1]
            mi = m_new
            if trace is not None:
                trace.append((r0, c0, mi.copy(), li.copy()))
        O[r0:r1] = Oi / li[:, None]
        l[r0:r1], m[r0:r1] = li, mi
    return O, m + np.log(l)


def io_bytes(N, M, d, Br, itemsize=4):
    """Traffic of the loop above: Q and O once, K and V once per row tile."""
    return itemsize * (2 * N * d + math.ceil(N / Br) * 2 * M * d)


def exercise_1():
    for Br in (4, 8, 16, 32):
        print("Br=%2d  %7.1f KiB" % (Br, io_bytes(256, 256, 64, Br) / 1024))


if __name__ == "__main__":
    rng = np.random.default_rng(7)
    Q, K, V = (rng.standard_normal((10, 8)) for _ in range(3))
    t = []
    O, L = flash_forward(Q, K, V, trace=t)
    print(O.shape, L[:3], len(t))
    exercise_1()

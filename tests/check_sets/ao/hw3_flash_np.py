"""CS 8803 homework 3, problem 2: the FlashAttention forward pass in NumPy

tile over keys inside, tile over queries outside. O, l, m are kept per query row.
Also returns L = m + log(l), needed by problem 3 (backward).
"""
import numpy as np


def tiles(n, size):
    for a in range(0, n, size):
        yield a, min(a + size, n)


def flash_forward(Q, K, V, causal=False, Br=16, Bc=16):
    """Q [n, d], K [m, d], V [m, dv] -> O [n, dv], L [n]

    with causal=True the last query is aligned with the last key (n <= m)
    """
    n, d = Q.shape
    m_len = K.shape[0]
    shift = m_len - n
    O = np.zeros((n, V.shape[1]))
    L = np.zeros(n)
    for r0, r1 in tiles(n, Br):
        q = Q[r0:r1] / np.sqrt(d)
        m = np.full(r1 - r0, -np.inf)
        l = np.zeros(r1 - r0)
        acc = np.zeros((r1 - r0, V.shape[1]))
        for c0, c1 in tiles(m_len, Bc):
            if causal and c0 > r1 - 1 + shift:
                break  # every key of this tile lies in the future
            S = q @ K[c0:c1].T
            if causal:
                rows = np.arange(r0, r1)[:, None] + shift
                cols = np.arange(c0, c1)[None, :]
                S = np.where(cols > rows, -np.inf, S)
            m_new = np.maximum(m, S.max(axis=1))
            P = np.exp(S - m_new[:, None])
            corr = np.exp(m - m_new)
            l = l * corr + P.sum(axis=1)
            acc = acc * corr[:, None] + P @ V[c0:c1]
            m = m_new
        O[r0:r1] = acc / l[:, None]
        L[r0:r1] = m + np.log(l)
    return O, L


def flash_backward(Q, K, V, O, L, dO, causal=False):
    """not tiled; uses the saved L instead of a second softmax"""
    n, d = Q.shape
    S = Q @ K.T / np.sqrt(d)
    P = np.exp(S - L[:, None])
    if causal:
        keep = np.tri(n, K.shape[0], K.shape[0] - n)
        P = P * keep
    dV = P.T @ dO
    dP = dO @ V.T
    D = (dO * O).sum(1, keepdims=True)
    dS = P * (dP - D) / np.sqrt(d)
    return dS @ K, dS.T @ Q, dV


def count_io(n, d, M):
    """number of HBM accesses (elements) as in theorem 2"""
    Bc = max(1, M // (4 * d))
    Tc = -(-n // Bc)
    return {"standard": n * d * 4 + 2 * n * n, "flash": n * d * Tc * 2 + 2 * n * d}


def numeric_grad(f, X, h=1e-5):
    G = np.zeros_like(X)
    it = np.nditer(X, flags=["multi_index"])
    for _ in it:
        i = it.multi_index
        old = X[i]
        X[i] = old + h
        up = f()
        X[i] = old - h
        down = f()
        X[i] = old
        G[i] = (up - down) / (2 * h)
    return G

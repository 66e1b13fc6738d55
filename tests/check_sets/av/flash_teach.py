"""FlashAttention forward pass in NumPy, tile by tile, for the reading group.

The result is exact attention softmax(Q K^T / sqrt(d)) V; only the order of the work is
another.  `traffic` counts what goes between "HBM" and "SRAM".
"""
import math

import numpy as np


class Traffic:
    def __init__(self):
        self.read = 0
        self.write = 0

    def load(self, a):
        self.read += a.size
        return a

    def store(self, dst, rows, a):
        self.write += a.size
        dst[rows] = a


def tiles(n, size):
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def flash_forward(Q, K, V, Br=4, Bc=4, causal=False, traffic=None):
    """Q [N, d], K [M, d], V [M, e]; causal needs N == M. Returns O [N, e] and L [N]."""
    tr = traffic or Traffic()
    N, d = Q.shape
    O = np.zeros((N, V.shape[1]))
    L = np.zeros(N)
    tau = 1.0 / math.sqrt(d)
    for rows in tiles(N, Br):
        q = tr.load(Q[rows])
        n = q.shape[0]
        o = np.zeros((n, V.shape[1]))
        l = np.zeros((n, 1))
        m = np.full((n, 1), -np.inf)
        for cols in tiles(K.shape[0], Bc):
            if causal and cols.start > rows.stop - 1:
                break
            k, v = tr.load(K[cols]), tr.load(V[cols])
            s = tau * (q @ k.T)
            if causal:
                i = np.arange(rows.start, rows.stop)[:, None]
                j = np.arange(cols.start, cols.stop)[None, :]
                s = np.where(j <= i, s, -np.inf)
            m_new = np.maximum(m, s.max(axis=1, keepdims=True))
            p = np.exp(s - m_new)
            l = np.exp(m - m_new) * l + p.sum(axis=1, keepdims=True)
            o = o + p @ v
            m = m_new
        tr.store(O, rows, o / l)
        L[rows] = (m + np.log(l))[:, 0]
    return O, L


def backward_delta(O, dO):
    return (O * dO).sum(axis=1)


def naive_traffic(N, M, d, e):
    """Reads and writes of the textbook way with S and P in HBM."""
    read = N * d + M * d + 2 * N * M + M * e
    write = 2 * N * M + N * e
    return read, write


def compare(N, d, Br, Bc):
    t = Traffic()
    z = np.zeros((N, d))
    flash_forward(z, z, z, Br, Bc, traffic=t)
    r, w = naive_traffic(N, N, d, d)
    return {"flash": t.read + t.write, "naive": r + w}

"""Blockwise attention forward + backward in numpy (study notes for a CUDA port)."""
from collections import OrderedDict

import numpy as np

NEG = -np.inf


def _tiles(n, size):
    for a in range(0, n, size):
        yield a, min(a + size, n)


def tiled_forward(Q, K, V, block_q=4, block_k=4, causal=False):
    """Q (Lq, d), K (Lk, d), V (Lk, dv).  causal: the last query is aligned with the last key.

    Returns (O, lse), lse natural logarithm per row; rows that see nothing give O = 0, lse = -inf.
    """
    Lq, d = Q.shape
    Lk, dv = V.shape
    sc = 1.0 / np.sqrt(d)
    O = np.zeros((Lq, dv))
    LSE = np.full(Lq, NEG)
    off = Lk - Lq
    for q0, q1 in _tiles(Lq, block_q):
        m = np.full(q1 - q0, NEG)
        l = np.zeros(q1 - q0)
        acc = np.zeros((q1 - q0, dv))
        for k0, k1 in _tiles(Lk, block_k):
            if causal and k0 > q1 - 1 + off:
                break
            S = Q[q0:q1] @ K[k0:k1].T * sc
            if causal:
                S = np.where(np.arange(k0, k1)[None] > np.arange(q0, q1)[:, None] + off, NEG, S)
            m_new = np.maximum(m, S.max(1))
            safe = np.where(np.isinf(m_new), 0.0, m_new)
            P = np.exp(S - safe[:, None])
            r = np.exp(m - safe)
            l = l * r + P.sum(1)
            acc = acc * r[:, None] + P @ V[k0:k1]
            m = m_new
        hit = l > 0
        O[q0:q1][hit] = acc[hit] / l[hit][:, None]
        LSE[q0:q1][hit] = m[hit] + np.log(l[hit])
    return O, LSE


def backward(Q, K, V, O, lse, dO, causal=False):
    """Dense gradient from the saved row statistics."""
    sc = 1.0 / np.sqrt(Q.shape[1])
    S = Q @ K.T * sc
    if causal:
        off = K.shape[0] - Q.shape[0]
        S = np.where(np.arange(K.shape[0])[None] > np.arange(Q.shape[0])[:, None] + off, NEG, S)
    P = np.exp(S - np.where(np.isinf(lse), 0, lse)[:, None])
    dV = P.T @ dO
    dP = dO @ V.T
    dS = P * (dP - (dO * O).sum(1, keepdims=True)) * sc
    return OrderedDict(dQ=dS @ K, dK=dS.T @ Q, dV=dV)


def combine(parts):
    """[(O, lse), ...] over disjoint key ranges -> (O, lse)."""
    lses = np.stack([p[1] for p in parts])
    top = lses.max(0)
    top = np.where(np.isinf(top), 0, top)
    w = np.exp(lses - top)
    z = w.sum(0)
    O = sum(wi[:, None] * p[0] for wi, p in zip(w, parts)) / np.where(z > 0, z, 1)[:, None]
    with np.errstate(divide="ignore"):
        return O, top + np.log(z)

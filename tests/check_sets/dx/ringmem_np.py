"""Attention over a long memory in pieces, NumPy (for a Memorizing-Transformer clone).

read(q, pieces): q (n, d); pieces is a list of (K, V) pairs, K (m_i, d), V (m_i, e), m_i >= 1,
and the result (n, e) is that of ONE softmax over all the pieces laid end to end:

    softmax(q [K_1; K_2; ...]^T / sqrt(d)) [V_1; V_2; ...]

Every piece yields its own normalised output and the logarithm of its softmax denominator; the
pieces are merged with these two, flash-decoding style, so that a piece can live on disk and
only one is in RAM at a time.
"""
import numpy as np

LOG2E = 1.4426950408889634


def one_piece(q, K, V):
    # exp2 is quicker than exp on the board
    s = (q @ K.T) * (LOG2E / np.sqrt(q.shape[1]))
    top = s.max(axis=1, keepdims=True)
    p = np.exp2(s - top)
    total = p.sum(axis=1, keepdims=True)
    out = (p @ V) / total
    lse = top + np.log2(total)
    return out, lse


def merge(o1, l1, o2, l2):
    l = np.logaddexp(l1, l2)
    out = np.exp(l1 - l) * o1 + np.exp(l2 - l) * o2
    return out, l


def read(q, pieces):
    out, lse = one_piece(q, *pieces[0])
    for K, V in pieces[1:]:
        o, l = one_piece(q, K, V)
        out, lse = merge(out, lse, o, l)
    return out

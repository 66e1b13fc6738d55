# -*- coding: utf-8 -*-
"""FlashAttention-2 向前傳播(教學用,單頭,NumPy)。

Tiles of Br query rows and Bc key rows; the softmax is accumulated on line and normalised
once at the end of each row tile.  With causal=True the queries are the last Nq of the Nk
positions: query i sees the keys j <= i + Nk - Nq (Nk >= Nq).
"""
import numpy as np


def flash_forward(Q, K, V, Br=16, Bc=16, causal=False):
    """Q (Nq, d), K (Nk, d), V (Nk, dv) -> O (Nq, dv), L (Nq,).

    O = softmax(Q K^T / sqrt(d)) V.
    L = natural log-sum-exp of each row's scaled (and masked) logits, for the backward pass.
    """
    Nq, d = Q.shape
    Nk, dv = V.shape
    shift = Nk - Nq
    O = np.zeros((Nq, dv))
    L = np.zeros(Nq)
    for i0 in range(0, Nq, Br):
        i1 = min(i0 + Br, Nq)
        qi = Q[i0:i1] / np.sqrt(d)
        m = np.full(i1 - i0, -np.inf)
        l = np.zeros(i1 - i0)
        acc = np.zeros((i1 - i0, dv))
        for j0 in range(0, Nk, Bc):
            # 整塊都在對角線之上:後面的塊也一樣,直接跳出
            if causal and j0 > (i1 - 1) + shift:
                break
            j1 = min(j0 + Bc, Nk)
            S = qi @ K[j0:j1].T
            if causal and j1 - 1 > i0 + shift:
                rows = np.arange(i0, i1)[:, None] + shift
                S = np.where(np.arange(j0, j1)[None, :] <= rows, S, -np.inf)
            m_new = np.maximum(m, S.max(axis=1))
            alpha = np.exp(m - m_new)
            P = np.exp(S - m_new[:, None])
            l = alpha * l + P.sum(axis=1)
            acc = alpha[:, None] * acc + P @ V[j0:j1]
            m = m_new
        O[i0:i1] = acc / l[:, None]
        L[i0:i1] = m + np.log(l)
    return O, L

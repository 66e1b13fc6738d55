"""BLOOM-like decoder attention with ALiBi, NumPy, inference only (I port it to a console).

bloom_attention(x, w, b, wo, bo, n)
    x (L, D); w (D, 3 D) and b (3 D,) packed so that the columns of head h are the D/n of its
    query, then of its key, then of its value (BLOOM's layout: head, qkv, channel)
    wo (D, D), bo (D,);  n heads, a power of two
    -> (L, D)

score(i, j) = q_i.k_j / sqrt(D/n) - m_h * (i - j) for j <= i, nothing for j > i. The slopes are
those of Press et al.: for h = 1 .. n, m_h = 2^(-8 h / n). For n = 8: 1/2, 1/4, ..., 1/256.
"""
import numpy as np


def slopes(n):
    base = 2.0 ** (-8.0 / n)
    return base ** np.arange(n)


def softmax_(s):
    s -= s.max(-1, keepdims=True)
    np.exp(s, out=s)
    s /= s.sum(-1, keepdims=True)
    return s


def bloom_attention(x, w, b, wo, bo, n):
    L, D = x.shape
    d = D // n
    fused = (x @ w + b).reshape(L, n, 3, d)
    q, k, v = fused[:, :, 0], fused[:, :, 1], fused[:, :, 2]
    s = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(d)
    pos = np.arange(L)
    s += slopes(n)[:, None, None] * (pos[None, :] - pos[:, None])
    s[:, pos[None, :] > pos[:, None]] = -np.inf
    y = np.einsum("hij,jhd->ihd", softmax_(s), v)
    return y.reshape(L, D) @ wo + bo

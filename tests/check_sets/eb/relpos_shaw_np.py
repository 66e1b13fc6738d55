"""Relative position representations (Shaw et al. 2018) in NumPy -- forum thread, second attempt.

a_k and a_v are tables with 2m+1 rows: row r belongs to the clipped offset  r - m,
i.e. row 0 is "m or more to the left", row m is "the same position", row 2m "m or more to the right".
Offset of key j seen from query i: j - i.

    e_ij = q_i . (k_j + a_k[offset]) / sqrt(d);   w = softmax_j(e);   z_i = sum_j w_ij (v_j + a_v[offset])
"""
import numpy as np


def offsets(L, m):
    """(L, L) int, clipped offsets j - i"""
    j = np.arange(L)
    return np.clip(j[None, :] - j[:, None], -m, m)


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def shaw(q, k, v, a_k, a_v):
    """
    q, k, v (B, H, L, d); a_k, a_v (2m+1, d), shared by the heads
    returns z (B, H, L, d), w (B, H, L, L)
    """
    L, d = q.shape[-2:]
    m = (a_k.shape[0] - 1) // 2
    idx = offsets(L, m)
    rk, rv = a_k[idx], a_v[idx]                         # (L, L, d)
    e = q @ k.swapaxes(-1, -2) + np.einsum("bhid,ijd->bhij", q, rk)
    w = softmax(e / np.sqrt(d))
    z = w @ v + np.einsum("bhij,ijd->bhid", w, rv)
    return z, w


def encoder(x, W, tables, H):
    """x (B, L, D); W dict of q, k, v, o, each (D, D); tables = (a_k, a_v). Residual included."""
    B, L, D = x.shape
    f = lambda n: (x @ W[n]).reshape(B, L, H, D // H).transpose(0, 2, 1, 3)
    z, _ = shaw(f("q"), f("k"), f("v"), *tables)
    return x + z.transpose(0, 2, 1, 3).reshape(B, L, D) @ W["o"]

"""BLOOM attention ported to NumPy (ALiBi, packed projection, causal)."""
import numpy as np


def alibi_slopes(n_head):
    """n_head (a power of two) slopes: 2^(-8/n), 2^(-16/n), ..., 2^(-8)."""
    return 2.0 ** (-8.0 * np.arange(n_head) / n_head)


def distance_cost(slopes, L):
    """(H, L, L) bias: each step further back costs the slope of the head, so the own
    position is free and the far past is expensive."""
    i = np.arange(L)[:, None]
    j = np.arange(L)[None, :]
    return slopes[:, None, None] * (i - j)


def bloom_attention(x, w_qkv, b_qkv, w_out, b_out, n_head):
    """x (L, D) -> (L, D), one sequence without padding.

    w_qkv  (3 * D, D), b_qkv (3 * D,): rows are laid out head by head, in each head
           d rows for q, d for k, d for v (so the layout is (H, 3, d))
    w_out  (D, D), b_out (D,);  y = x @ w.T + b

    softmax(q k^T / sqrt(d) + alibi) v, token i sees tokens 0..i.
    """
    L, D = x.shape
    d = D // n_head
    qkv = (x @ w_qkv.T + b_qkv).reshape(L, n_head, 3, d).transpose(2, 1, 0, 3)
    q, k, v = qkv[0], qkv[1], qkv[2]                        # (H, L, d)
    s = np.matmul(q, k.transpose(0, 2, 1)) / np.sqrt(d)
    s = s + distance_cost(alibi_slopes(n_head), L)
    s = np.where(np.tri(L, dtype=bool), s, -np.inf)
    s = np.exp(s - s.max(axis=-1, keepdims=True))
    s = s / s.sum(axis=-1, keepdims=True)
    y = np.matmul(s, v).transpose(1, 0, 2).reshape(L, D)
    return y @ w_out.T + b_out

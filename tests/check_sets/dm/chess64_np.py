"""chess64 - one attention layer over the 64 squares, inference in plain NumPy.

(training is in the torch notebook; this file only plays, on a Raspberry Pi)

squares : (64, D) one vector per square, a1, b1, ..., h1, a2, ..., h8
W       : dict with 'q', 'k', 'v', 'o' of shape (D, D), used as x @ W
bias    : (H, 15, 15), learned, bias[h, dr + 7, df + 7] is added to the score
          of head h when the key stands dr ranks above and df files to the right of
          the query.
blocked : optional (64, 64) bool, True = the query square may NOT see this key
          square (we use it for the "only squares my pieces reach" heads).
          A square always sees itself, whatever blocked says.

Score = q.k / sqrt(D/H) + bias, softmax over the 64 key squares.  Returns (64, D).
"""
import numpy as np

rank = np.arange(64) // 8
file_ = np.arange(64) % 8
DR = rank[None, :] - rank[:, None] + 7       # [query, key]
DF = file_[None, :] - file_[:, None] + 7


def stable_softmax(a):
    a = a - a.max(axis=-1, keepdims=True)
    np.exp(a, out=a)
    return a / a.sum(axis=-1, keepdims=True)


def squares_attention(squares, W, bias, blocked=None):
    n, D = squares.shape
    H = bias.shape[0]
    d = D // H
    q, k, v = (np.moveaxis((squares @ W[c]).reshape(n, H, d), 1, 0) for c in "qkv")
    s = np.matmul(q, np.swapaxes(k, 1, 2)) / np.sqrt(d)
    s = s + bias[:, DR, DF]
    if blocked is not None:
        s = np.where(blocked & ~np.eye(n, dtype=bool), -np.inf, s)
    y = np.matmul(stable_softmax(s), v)
    return np.moveaxis(y, 0, 1).reshape(n, D) @ W["o"]


def layer(squares, p):
    """Post-norm residual layer without learned gain (folded in the next matrix)."""
    y = squares + squares_attention(squares, p["W"], p["bias"], p.get("blocked"))
    y = y - y.mean(-1, keepdims=True)
    return y / np.sqrt(y.var(-1, keepdims=True) + 1e-5)

"""Exercise sheet 6 with solutions: where am I, and whom do I look at?

(a) Build the sinusoidal position table of "Attention is all you need",
        PE[pos, 2k]     = sin(pos / 10000^(2k / D))
        PE[pos, 2k + 1] = cos(pos / 10000^(2k / D)),      k = 0 .. D/2 - 1.
(b) Add it to the word vectors and apply scaled dot-product self-attention.
"""
import numpy as np


def position_table(n, D):
    """Solution of (a): array (n, D), D even."""
    table = np.zeros((n, D))
    for pos in range(n):
        for i in range(0, D, 2):
            angle = pos / 10000 ** (2 * i / D)
            table[pos, i] = np.sin(angle)
            table[pos, i + 1] = np.cos(angle)
    return table


def attend_with_positions(words, Wq, Wk, Wv):
    """Solution of (b).

    words : (B, n, D)    Wq, Wk : (D, d)    Wv : (D, e)
    With x = words + PE returns softmax(Q K^T / sqrt(d)) V, shape (B, n, e), where
    Q = x Wq, K = x Wk, V = x Wv and the softmax runs over the words looked at.
    """
    B, n, D = words.shape
    x = words + position_table(n, D)
    Q = x @ Wq
    K = x @ Wk
    V = x @ Wv

    similarity = np.matmul(Q, K.transpose(0, 2, 1))
    similarity = similarity - similarity.max(axis=2, keepdims=True)
    weight = np.exp(similarity)
    weight /= weight.sum(axis=2, keepdims=True)
    return np.matmul(weight, V)


if __name__ == "__main__":
    g = np.random.default_rng(0)
    w = g.normal(size=(2, 5, 8))
    print(attend_with_positions(w, *g.normal(size=(3, 8, 4))).shape)

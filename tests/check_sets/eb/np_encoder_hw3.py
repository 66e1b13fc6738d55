"""HW3, Problem 2: transformer encoder layer in NumPy (forward only).

Shapes: x [B, L, D]; every weight is [D, D]; ff weights [D, F] and [F, D].
Post-norm, ReLU, no dropout, no padding.
Attention for each head:  softmax(Q K^T / sqrt(dk)) V, every query's weights sum to one.
"""
import numpy as np


def softmax(t, ax):
    e = np.exp(t)
    return e / np.sum(e, axis=ax, keepdims=True)


def layer_norm(x, eps=1e-5):
    mu = x.mean(-1, keepdims=True)
    return (x - mu) / np.sqrt(x.var(-1, keepdims=True) + eps)


class EncLayerHW3:
    def __init__(self, D, heads, F, rng):
        self.h = heads
        self.dk = D // heads
        g = lambda *s: rng.standard_normal(s) / np.sqrt(s[0])
        self.Wq, self.Wk, self.Wv, self.Wo = g(D, D), g(D, D), g(D, D), g(D, D)
        self.W1, self.W2 = g(D, F), g(F, D)

    def split(self, t):
        B, L, _ = t.shape
        return t.reshape(B, L, self.h, self.dk).transpose(0, 2, 1, 3)

    def attention(self, x):
        B, L, D = x.shape
        Q, K, V = (self.split(x @ W) for W in (self.Wq, self.Wk, self.Wv))
        scores = Q @ K.transpose(0, 1, 3, 2) / np.sqrt(self.dk)   # [B, h, L, L]
        A = softmax(scores, ax=-2)
        ctx = (A @ V).transpose(0, 2, 1, 3).reshape(B, L, D)
        return ctx @ self.Wo

    def __call__(self, x):
        """x [B, L, D] -> [B, L, D]"""
        x = layer_norm(x + self.attention(x))
        ff = np.maximum(x @ self.W1, 0.0) @ self.W2
        return layer_norm(x + ff)

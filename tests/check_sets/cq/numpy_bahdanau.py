"""
Assignment 4, part 2: attention for date translation ("3 May 1979" -> "1979-05-03").
NumPy only, forward pass.
"""
import numpy as np


class AdditiveAttention:
    """Bahdanau et al. 2015:  e_j = v . tanh(W s + U h_j + b), alpha = softmax(e)"""

    def __init__(self, state_dim=6, annot_dim=8, attn_dim=5, seed=0):
        rng = np.random.default_rng(seed)
        self.W = rng.normal(0, state_dim ** -0.5, (state_dim, attn_dim))
        self.U = rng.normal(0, annot_dim ** -0.5, (annot_dim, attn_dim))
        self.b = np.zeros(attn_dim)
        self.v = rng.normal(0, attn_dim ** -0.5, attn_dim)

    def __call__(self, s, h, lengths=None):
        """
        s: (B, state_dim), decoder state
        h: (B, T, annot_dim), encoder annotations
        lengths: (B,), source lengths (>= 1); annotations after the length are padding
        returns c (B, annot_dim), alpha (B, T)
        """
        pre = (s @ self.W)[:, None, :] + h @ self.U + self.b
        e = np.tanh(pre) @ self.v
        if lengths is not None:
            inside = np.arange(h.shape[1])[None, :] < np.asarray(lengths)[:, None]
            e = np.where(inside, e, -np.inf)
        e = e - e.max(axis=1, keepdims=True)
        w = np.exp(e)
        alpha = w / w.sum(axis=1, keepdims=True)
        c = (alpha[:, :, None] * h).sum(axis=1)
        return c, alpha


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


class GRUDecoderCell:
    def __init__(self, in_dim=4, annot_dim=8, state_dim=6, seed=1):
        rng = np.random.default_rng(seed)
        n = in_dim + annot_dim + state_dim
        self.Wz = rng.normal(0, n ** -0.5, (n, state_dim))
        self.Wr = rng.normal(0, n ** -0.5, (n, state_dim))
        self.Wn = rng.normal(0, n ** -0.5, (n, state_dim))
        self.attend = AdditiveAttention(state_dim, annot_dim)

    def step(self, y, s, h, lengths=None):
        """y: (B, in_dim), embedding of the previous symbol"""
        c, alpha = self.attend(s, h, lengths)
        x = np.concatenate([y, c, s], axis=1)
        z, r = sigmoid(x @ self.Wz), sigmoid(x @ self.Wr)
        n = np.tanh(np.concatenate([y, c, r * s], axis=1) @ self.Wn)
        return (1 - z) * n + z * s, alpha

"""Transformer-XL attention (Dai et al. 2019) in numpy, port of the TF code for melodies.

score(i, j) = (q_i + u).k_j + (q_i + v).r_{i-j}   with i, j absolute positions, j <= i.
"""
import numpy as np


def sinusoid(pos, d):
    inv = 1.0 / 10000 ** (np.arange(0, d, 2) / d)
    a = np.outer(pos, inv)
    return np.concatenate([np.sin(a), np.cos(a)], axis=-1)


def rel_shift(x):
    """(H, T, S) -> row i moved left by T-1-i, with the usual pad & reshape trick."""
    h, t, s = x.shape
    x = np.concatenate([np.zeros((h, t, 1)), x], axis=2)
    return x.reshape(h, s + 1, t)[:, 1:].reshape(h, t, s)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


class RelAttention:
    def __init__(self, d_model, heads, seed=0):
        r = np.random.default_rng(seed)
        self.h, self.d = heads, d_model // heads
        g = lambda *s: r.normal(size=s) / np.sqrt(d_model)
        self.wq, self.wk, self.wv, self.wr, self.wo = (g(d_model, d_model) for _ in range(5))
        self.u, self.v = g(heads, 1, self.d), g(heads, 1, self.d)

    def _split(self, x):
        return x.reshape(len(x), self.h, self.d).transpose(1, 0, 2)

    def __call__(self, x, mem=None):
        """x (T, E) current segment; mem (M, E) hidden states of the previous one."""
        cat = x if mem is None else np.concatenate([mem, x])
        T, S = len(x), len(cat)
        q, k, v = self._split(x @ self.wq), self._split(cat @ self.wk), self._split(cat @ self.wv)
        pos = np.arange(S)
        r = self._split(sinusoid(pos, x.shape[1]) @ self.wr)
        ac = (q + self.u) @ k.transpose(0, 2, 1)
        bd = rel_shift((q + self.v) @ r.transpose(0, 2, 1))
        s = (ac + bd) / np.sqrt(self.d)
        s = np.where(np.tri(T, S, S - T, dtype=bool), s, -np.inf)
        y = softmax(s) @ v
        return y.transpose(1, 0, 2).reshape(T, -1) @ self.wo


def generate_states(layer, x, seg=4):
    mem, out = None, []
    for i in range(0, len(x), seg):
        out.append(layer(x[i:i + seg], mem))
        mem = x[max(0, i):i + seg]
    return np.concatenate(out)

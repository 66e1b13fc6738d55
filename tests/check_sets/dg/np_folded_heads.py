"""Transformer encoder layer in numpy, all heads folded into the first axis."""
import numpy as np


def softmax(a):
    a = np.exp(a - a.max(-1, keepdims=True))
    return a / a.sum(-1, keepdims=True)


def fold(x, h):
    """(B, L, h*d) -> (h*B, L, d), head by head"""
    B, L, D = x.shape
    return x.reshape(B, L, h, D // h).transpose(2, 0, 1, 3).reshape(h * B, L, D // h)


def unfold(x, h):
    """(h*B, L, d) -> (B, L, h*d)"""
    hB, L, d = x.shape
    return x.reshape(h, hB // h, L, d).transpose(1, 2, 0, 3).reshape(hB // h, L, h * d)


def layer_norm(x, eps=1e-5):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)


class EncoderLayer:
    def __init__(self, dim=24, heads=4, seed=1):
        r = np.random.default_rng(seed)
        self.h = heads
        self.wq, self.wk, self.wv, self.wo = r.normal(0, dim ** -0.5, (4, dim, dim))
        self.w1 = r.normal(0, dim ** -0.5, (dim, 2 * dim))
        self.w2 = r.normal(0, (2 * dim) ** -0.5, (2 * dim, dim))

    def __call__(self, x, lengths):
        """x (B, L, dim), lengths (B,) -> (B, L, dim)"""
        L = x.shape[1]
        q, k, v = (fold(x @ w, self.h) for w in (self.wq, self.wk, self.wv))
        pad = np.arange(L)[None, :] >= np.asarray(lengths)[:, None]
        pad = np.repeat(pad, self.h, axis=0)[:, None, :]
        s = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
        s = np.where(pad, np.finfo(s.dtype).min, s)
        x = layer_norm(x + unfold(softmax(s) @ v, self.h) @ self.wo)
        return layer_norm(x + np.maximum(x @ self.w1, 0) @ self.w2)

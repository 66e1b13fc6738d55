"""Lecture 7: one encoder layer in plain NumPy, following "Attention Is All You Need"."""
import numpy as np


def positional_encoding(length, d_model):
    """PE[pos, 2i] = sin(pos / 10000^(2i/d_model)), PE[pos, 2i+1] = cos(same angle)."""
    pe = np.zeros((length, d_model))
    pos = np.arange(length)[:, None]
    for i in range(0, d_model, 2):
        angle = pos[:, 0] / np.power(10000, 2 * i / d_model)
        pe[:, i] = np.sin(angle)
        pe[:, i + 1] = np.cos(angle)
    return pe


def softmax(x, axis):
    x = x - x.max(axis=axis, keepdims=True)
    e = np.exp(x)
    return e / e.sum(axis=axis, keepdims=True)


def layer_norm(x, eps=1e-5):
    mu = x.mean(-1, keepdims=True)
    return (x - mu) / np.sqrt(x.var(-1, keepdims=True) + eps)


class EncoderLayer:
    """x: (batch, length, d_model). No mask, every word sees every word."""

    def __init__(self, d_model=16, n_heads=2, d_ff=32, seed=7):
        rng = np.random.default_rng(seed)

        def mat(a, b):
            return rng.normal(0, 1 / np.sqrt(a), (a, b))

        self.n_heads = n_heads
        self.d_k = d_model // n_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (mat(d_model, d_model) for _ in range(4))
        self.W_1, self.W_2 = mat(d_model, d_ff), mat(d_ff, d_model)

    def split_heads(self, x):
        b, n, _ = x.shape
        return x.reshape(b, n, self.n_heads, self.d_k).transpose(0, 2, 1, 3)

    def self_attention(self, x):
        Q = self.split_heads(x @ self.W_q)
        K = self.split_heads(x @ self.W_k)
        V = self.split_heads(x @ self.W_v)
        scores = Q @ K.transpose(0, 1, 3, 2) / np.sqrt(self.d_k)
        A = softmax(scores, axis=2)      # (batch, heads, query, key)
        Z = (A @ V).transpose(0, 2, 1, 3)
        return Z.reshape(x.shape) @ self.W_o

    def forward(self, x):
        x = x + positional_encoding(x.shape[1], x.shape[2])
        x = layer_norm(x + self.self_attention(x))
        return layer_norm(x + np.maximum(0, x @ self.W_1) @ self.W_2)

"""Attention Is All You Need in NumPy: a decoder-only layer for the reading group.

    PE(pos, 2i)   = sin(pos / 10000^(2i/d_model))
    PE(pos, 2i+1) = cos(pos / 10000^(2i/d_model))
    Attention     = softmax(Q K^T / sqrt(d_k)) V

Position i may read the positions 0..i and nothing later (section 3.2.3).
"""
import numpy as np


def positional_encoding(length, d_model):
    """(length, d_model), d_model even"""
    pos = np.arange(length)[:, None]
    i = np.arange(0, d_model, 2)[None, :]
    angle = pos / np.power(10000.0, 2 * i / d_model)
    pe = np.empty((length, d_model))
    pe[:, 0::2] = np.sin(angle)
    pe[:, 1::2] = np.cos(angle)
    return pe


def softmax(x, axis=-1):
    x = x - x.max(axis=axis, keepdims=True)
    e = np.exp(x)
    return e / e.sum(axis=axis, keepdims=True)


def layer_norm(x, eps=1e-6):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)


class DecoderLayer:
    """__call__(emb): emb (B, T, d_model) token embeddings, positions not yet added.
    Returns (B, T, d_model). All sentences have the same length."""

    def __init__(self, d_model=32, n_heads=4, d_ff=64, seed=0):
        g = np.random.default_rng(seed)
        self.h, self.d_k = n_heads, d_model // n_heads
        self.Wq, self.Wk, self.Wv, self.Wo = g.normal(0, d_model ** -0.5, (4, d_model, d_model))
        self.W1 = g.normal(0, d_model ** -0.5, (d_model, d_ff))
        self.W2 = g.normal(0, d_ff ** -0.5, (d_ff, d_model))

    def split(self, x):
        B, T, _ = x.shape
        return x.reshape(B, T, self.h, self.d_k).transpose(0, 2, 1, 3)

    def attention(self, x):
        B, T, D = x.shape
        q, k, v = self.split(x @ self.Wq), self.split(x @ self.Wk), self.split(x @ self.Wv)
        scores = q @ k.transpose(0, 1, 3, 2) / self.d_k
        allowed = np.tril(np.ones((T, T), dtype=bool), k=1)
        scores = np.where(allowed, scores, -np.inf)
        out = softmax(scores) @ v
        return out.transpose(0, 2, 1, 3).reshape(B, T, D) @ self.Wo

    def __call__(self, emb):
        x = emb + positional_encoding(emb.shape[1], emb.shape[2])
        x = layer_norm(x + self.attention(x))
        return layer_norm(x + np.maximum(x @ self.W1, 0) @ self.W2)

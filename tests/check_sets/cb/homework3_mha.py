"""Homework 3, part B: multi-head self-attention forward pass, NumPy only.

Encoder layer for the POS-tagging data. `tokens_ok` is (B, T) with True for real tokens
and False for <pad>; every query takes a softmax over the real tokens of its sentence.
"""
import numpy as np


def xavier(rng, n_in, n_out):
    a = np.sqrt(6.0 / (n_in + n_out))
    return rng.uniform(-a, a, size=(n_in, n_out))


class Linear:
    def __init__(self, rng, n_in, n_out):
        self.W = xavier(rng, n_in, n_out)
        self.b = np.zeros(n_out)

    def forward(self, x):
        return x.dot(self.W) + self.b


class LayerNorm:
    def __init__(self, n):
        self.g, self.b = np.ones(n), np.zeros(n)

    def forward(self, x):
        mu, sd = x.mean(-1, keepdims=True), x.std(-1, keepdims=True)
        return self.g * (x - mu) / (sd + 1e-6) + self.b


class MultiHeadAttention:
    def __init__(self, rng, d_model, num_heads):
        assert d_model % num_heads == 0
        self.num_heads = num_heads
        self.d = d_model // num_heads
        self.Wq, self.Wk, self.Wv, self.Wo = (Linear(rng, d_model, d_model) for _ in range(4))

    def split(self, x):
        # (B, T, d_model) -> (B * H, T, d)
        B, T, _ = x.shape
        x = x.reshape(B, T, self.num_heads, self.d).transpose(0, 2, 1, 3)
        return x.reshape(B * self.num_heads, T, self.d)

    def join(self, x, B):
        # (B * H, T, d) -> (B, T, d_model)
        T = x.shape[1]
        x = x.reshape(self.num_heads, B, T, self.d).transpose(1, 2, 0, 3)
        return x.reshape(B, T, self.num_heads * self.d)

    def forward(self, x, tokens_ok):
        B = x.shape[0]
        q = self.split(self.Wq.forward(x))
        k = self.split(self.Wk.forward(x))
        v = self.split(self.Wv.forward(x))

        scores = np.matmul(q, k.transpose(0, 2, 1)) / np.sqrt(self.d)
        ok = np.repeat(tokens_ok, self.num_heads, axis=0)[:, None, :]
        scores = np.where(ok, -1e9, scores)

        scores = scores - scores.max(axis=2, keepdims=True)
        weights = np.exp(scores)
        weights = weights / weights.sum(axis=(1, 2), keepdims=True)
        return self.Wo.forward(self.join(np.matmul(weights, v), B))


class EncoderLayer:
    def __init__(self, rng, d_model, num_heads, d_ff):
        self.attn = MultiHeadAttention(rng, d_model, num_heads)
        self.ln1, self.ln2 = LayerNorm(d_model), LayerNorm(d_model)
        self.ff1, self.ff2 = Linear(rng, d_model, d_ff), Linear(rng, d_ff, d_model)

    def forward(self, x, tokens_ok):
        x = self.ln1.forward(x + self.attn.forward(x, tokens_ok))
        h = np.maximum(self.ff1.forward(x), 0)
        return self.ln2.forward(x + self.ff2.forward(h))


if __name__ == "__main__":
    rng = np.random.default_rng(11)
    layer = EncoderLayer(rng, 24, 4, 48)
    x = rng.normal(size=(3, 7, 24))
    ok = np.arange(7) < np.array([[7], [5], [3]])
    print(layer.forward(x, ok).shape)

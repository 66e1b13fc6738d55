"""One causal attention layer with ALiBi biases, NumPy, for teaching.

Press et al.: head h adds -m_h * (i - j) to the score of query i and key j <= i, so that
keys far away count less; m_h = 2 ** (-8 (h + 1) / n_heads), n_heads a power of two.
"""
import numpy as np


def slopes(n_heads):
    return 2.0 ** (-8.0 * (np.arange(n_heads) + 1) / n_heads)


def alibi_bias(n_heads, length):
    """(H, L, L)"""
    i = np.arange(length)[:, None]
    j = np.arange(length)[None, :]
    return slopes(n_heads)[:, None, None] * (i - j)


def softmax(x):
    e = np.exp(x)
    return e / e.sum(axis=-1, keepdims=True)


class AlibiLayer:
    """x (B, L, D) -> (B, L, D)"""

    def __init__(self, d_model=16, n_heads=4, seed=0):
        rng = np.random.default_rng(seed)
        self.n_heads = n_heads
        self.d_head = d_model // n_heads
        self.W_qkv = rng.normal(size=(d_model, 3 * d_model)) / np.sqrt(d_model)
        self.W_out = rng.normal(size=(d_model, d_model)) / np.sqrt(d_model)

    def __call__(self, x):
        B, L, D = x.shape
        q, k, v = np.split(x @ self.W_qkv, 3, axis=-1)
        q, k, v = (t.reshape(B, L, self.n_heads, self.d_head).transpose(0, 2, 1, 3) for t in (q, k, v))
        scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(self.d_head)
        scores = scores + alibi_bias(self.n_heads, L)
        future = np.triu(np.ones((L, L), dtype=bool), k=1)
        scores = np.where(future, -np.inf, scores)
        weights = softmax(scores)
        out = (weights @ v).transpose(0, 2, 1, 3).reshape(B, L, D)
        return out @ self.W_out

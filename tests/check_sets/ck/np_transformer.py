"""A transformer from scratch with nothing but NumPy (forward pass).

Follows "Attention Is All You Need": softmax(Q K^T / sqrt(d_k)) V in every head.
"""
import numpy as np


class Linear:
    def __init__(self, n_in, n_out, rng):
        self.W = rng.standard_normal((n_in, n_out)) / np.sqrt(n_in)
        self.b = np.zeros(n_out)

    def __call__(self, x):
        return x @ self.W + self.b


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e)


class MultiHeadAttention:
    """
    Parameters
    ----------
    d_model : int
    n_heads : int
    causal : bool
        True for the decoder's self-attention
    """

    def __init__(self, d_model=16, n_heads=2, causal=False, seed=0):
        rng = np.random.default_rng(seed)
        self.n_heads = n_heads
        self.d_k = d_model // n_heads
        self.causal = causal
        self.Wq, self.Wk, self.Wv, self.Wo = (Linear(d_model, d_model, rng) for _ in range(4))

    def _split(self, x):
        # (L, d_model) -> (heads, L, d_k)
        return x.reshape(x.shape[0], self.n_heads, self.d_k).transpose(1, 0, 2)

    def __call__(self, x, memory=None):
        """x: (L, d_model), memory: (S, d_model) for cross-attention; returns (L, d_model)"""
        memory = x if memory is None else memory
        q, k, v = self._split(self.Wq(x)), self._split(self.Wk(memory)), self._split(self.Wv(memory))
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(self.d_k)
        if self.causal:
            future = np.triu(np.ones(scores.shape[-2:], dtype=bool), k=1)
            scores = np.where(future, -np.inf, scores)
        heads = softmax(scores) @ v
        return self.Wo(heads.transpose(1, 0, 2).reshape(x.shape[0], -1))

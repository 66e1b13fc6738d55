"""Numpy inference for one exported decoder layer (no torch on the edge device)."""
import numpy as np


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


class DecoderAttention:
    """Causal multi-head self-attention with a preallocated cache.

    step(x) takes the next chunk (T, d_model) of one sequence and returns (T, d_model);
    the chunk sees everything fed since reset(), and within itself only the past.
    """

    def __init__(self, d_model=16, n_heads=4, max_len=32, seed=0):
        rng = np.random.RandomState(seed)
        s = 1 / np.sqrt(d_model)
        self.w_qkv = rng.uniform(-s, s, (d_model, 3 * d_model))
        self.b_qkv = rng.uniform(-s, s, 3 * d_model)
        self.w_o = rng.uniform(-s, s, (d_model, d_model))
        self.n_heads, self.d_head = n_heads, d_model // n_heads
        self.k = np.zeros((n_heads, max_len, self.d_head))
        self.v = np.zeros((n_heads, max_len, self.d_head))
        self.used = 0

    def reset(self):
        self.used = 0

    def step(self, x):
        T = x.shape[0]
        qkv = x @ self.w_qkv + self.b_qkv
        q, k, v = qkv.reshape(T, 3, self.n_heads, self.d_head).transpose(1, 2, 0, 3)
        lo, hi = self.used, self.used + T
        if hi > self.k.shape[1]:
            raise ValueError("cache is full")
        self.k[:, lo:hi] = k
        self.v[:, lo:hi] = v
        self.used = hi

        scores = np.einsum("htd,hsd->hts", q, self.k[:, :hi]) / np.sqrt(self.d_head)
        future = np.arange(hi)[None, :] > (lo + np.arange(T))[:, None]
        scores = np.where(future, -1e30, scores)
        out = np.einsum("hts,hsd->thd", softmax(scores), self.v[:, :hi])
        return out.reshape(T, -1) @ self.w_o

    __call__ = step

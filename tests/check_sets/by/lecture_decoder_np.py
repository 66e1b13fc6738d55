"""Lecture 5, board code: one transformer decoder layer with numpy arrays only.

The layer is post-norm as in Vaswani et al. (2017): masked self-attention,
attention over the encoder memory, feed-forward.  `memory_ok[b, s]` is True
where the source position holds a token.
"""
import numpy as np

NEG = -np.inf


def rows_softmax(a):
    a = a - a.max(axis=-1, keepdims=True)
    a = np.exp(a)
    return a / a.sum(axis=-1, keepdims=True)


def normalise(x, eps=1e-5):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)


class DecoderLayer:
    def __init__(self, d_model=16, n_heads=4, d_ff=32, seed=0):
        g = np.random.default_rng(seed)
        self.n_heads = n_heads

        def mat(a, b):
            return g.normal(0, a ** -0.5, size=(a, b))

        self.self_w = {n: mat(d_model, d_model) for n in "qkvo"}
        self.cross_w = {n: mat(d_model, d_model) for n in "qkvo"}
        self.w1, self.w2 = mat(d_model, d_ff), mat(d_ff, d_model)

    def to_heads(self, x):
        b, t, d = x.shape
        return x.reshape(b, t, self.n_heads, d // self.n_heads).transpose(0, 2, 1, 3)

    def attend(self, w, x, y, allowed):
        """x asks, y answers; allowed broadcasts to [B, H, Tx, Ty]."""
        q, k, v = self.to_heads(x @ w["q"]), self.to_heads(y @ w["k"]), self.to_heads(y @ w["v"])
        scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1])
        penalty = np.where(allowed, 0.0, NEG)
        p = rows_softmax(scores - penalty)
        out = (p @ v).transpose(0, 2, 1, 3).reshape(x.shape)
        return out @ w["o"]

    def forward(self, tgt, memory, memory_ok=None):
        """tgt [B, T, D], memory [B, S, D] -> [B, T, D]"""
        T, S = tgt.shape[1], memory.shape[1]
        causal = np.tril(np.ones((T, T), dtype=bool))
        if memory_ok is None:
            memory_ok = np.ones((tgt.shape[0], S), dtype=bool)

        x = normalise(tgt + self.attend(self.self_w, tgt, tgt, causal))
        x = normalise(x + self.attend(self.cross_w, x, memory, memory_ok[:, None, None, :]))
        return normalise(x + np.maximum(x @ self.w1, 0) @ self.w2)

"""Transformer encoder block from scratch: numpy, forward and backward.

Chapter 3 of my notes. Shapes are in the comments, B = batch, T = time, D = model, H = heads, K = head size.
"""
import numpy as np


class Linear:
    def __init__(self, n_in, n_out, rng):
        self.W = rng.standard_normal((n_in, n_out)) / np.sqrt(n_in)
        self.b = np.zeros(n_out)

    def forward(self, x):
        self.x = x
        return x @ self.W + self.b

    def backward(self, dy):
        x2, dy2 = self.x.reshape(-1, self.x.shape[-1]), dy.reshape(-1, dy.shape[-1])
        self.dW, self.db = x2.T @ dy2, dy2.sum(0)
        return dy @ self.W.T


class ReLU:
    def forward(self, x):
        self.on = x > 0
        return x * self.on

    def backward(self, dy):
        return dy * self.on


class MultiHeadAttention:
    def __init__(self, D, H, rng):
        self.H, self.K = H, D // H
        self.q, self.k, self.v, self.o = (Linear(D, D, rng) for _ in range(4))

    def to_heads(self, x):                                  # B T D -> B H T K
        B, T, _ = x.shape
        return np.swapaxes(x.reshape(B, T, self.H, self.K), 1, 2)

    def from_heads(self, x):                                # B H T K -> B T D
        B, H, T, K = x.shape
        return np.swapaxes(x, 1, 2).reshape(B, T, H * K)

    def forward(self, x, keep=None):
        """keep: (B, T), True for real tokens."""
        Q, K, V = (self.to_heads(f.forward(x)) for f in (self.q, self.k, self.v))
        S = np.einsum("bhtk,bhsk->bhts", Q, K) / np.sqrt(self.K)
        if keep is not None:
            S = np.where(keep[:, None, None, :], S, -1e9)
        E = np.exp(S - S.max(axis=-1, keepdims=True))
        A = E / E.sum(axis=-1, keepdims=True)
        self.saved = Q, K, V, A
        return self.o.forward(self.from_heads(np.einsum("bhts,bhsk->bhtk", A, V)))

    def backward(self, dy):
        Q, K, V, A = self.saved
        dC = self.to_heads(self.o.backward(dy))             # B H T K
        dV = np.einsum("bhts,bhtk->bhsk", A, dC)
        dA = np.einsum("bhtk,bhsk->bhts", dC, V)
        # rowwise (diag(a) - a a^T) dA
        dS = A * (dA - np.sum(A * dA, axis=-1, keepdims=True))
        dS /= np.sqrt(self.K)
        dQ = np.einsum("bhts,bhsk->bhtk", dS, K)
        dK = np.einsum("bhts,bhtk->bhsk", dS, Q)
        return (self.q.backward(self.from_heads(dQ))
                + self.k.backward(self.from_heads(dK))
                + self.v.backward(self.from_heads(dV)))


class EncoderBlock:
    """No layer norm yet, that is chapter 4."""

    def __init__(self, D, H, F, seed=0):
        rng = np.random.default_rng(seed)
        self.att = MultiHeadAttention(D, H, rng)
        self.f1, self.act, self.f2 = Linear(D, F, rng), ReLU(), Linear(F, D, rng)

    def forward(self, x, keep=None):
        h = x + self.att.forward(x, keep)
        return h + self.f2.forward(self.act.forward(self.f1.forward(h)))

    def backward(self, dy):
        dh = dy + self.f1.backward(self.act.backward(self.f2.backward(dy)))
        return dh + self.att.backward(dh)

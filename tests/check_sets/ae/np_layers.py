"""Tiny layer library: every layer has forward(x) and backward(dout)."""
import numpy as np


class Linear:
    def __init__(self, n_in, n_out, rng):
        self.W = rng.standard_normal((n_in, n_out)) / np.sqrt(n_in)
        self.dW = np.zeros_like(self.W)

    def forward(self, x):
        self.x = x
        return x @ self.W

    def backward(self, dout):
        self.dW = np.einsum("bti,bto->io", self.x, dout)
        return dout @ self.W.T


class SelfAttention:
    """Single-head causal self-attention, x: (B, T, D)."""

    def __init__(self, D, rng):
        self.q, self.k, self.v = (Linear(D, D, rng) for _ in range(3))
        self.scale = 1.0 / np.sqrt(D)

    def forward(self, x):
        Q, K, V = self.q.forward(x), self.k.forward(x), self.v.forward(x)
        S = np.einsum("btd,bsd->bts", Q, K) * self.scale
        T = x.shape[1]
        S = np.where(np.tril(np.ones((T, T), bool)), S, -np.inf)
        P = np.exp(S - S.max(-1, keepdims=True))
        P /= P.sum(-1, keepdims=True)
        self.saved = Q, K, V, P
        return P @ V

    def backward(self, dO):
        """Gradient of the loss w.r.t. x; gradients of the weights are kept in the Linear layers."""
        Q, K, V, P = self.saved
        dV = P.transpose(0, 2, 1) @ dO
        dP = dO @ V.transpose(0, 2, 1)
        dS = P * (dP - dP.mean(-1, keepdims=True)) * self.scale
        dQ = dS @ K
        dK = dS.transpose(0, 2, 1) @ Q
        return self.q.backward(dQ) + self.k.backward(dK) + self.v.backward(dV)

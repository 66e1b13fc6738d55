"""Neural network layers with a backward pass, for the course on deep learning."""
import numpy as np


class SelfAttentionLayer:
    def __init__(self, dim=6, rng=None):
        rng = rng or np.random.default_rng(7)
        self.params = {name: rng.normal(0, dim ** -0.5, (dim, dim)) for name in ("Wq", "Wk", "Wv")}
        self.grads = {}

    def forward(self, X):
        """X (B, T, D)"""
        Q, K, V = (X @ self.params[w] for w in ("Wq", "Wk", "Wv"))
        S = Q @ K.transpose(0, 2, 1) / np.sqrt(Q.shape[-1])
        S -= S.max(axis=-1, keepdims=True)
        A = np.exp(S)
        A /= A.sum(axis=-1, keepdims=True)
        self.cache = X, Q, K, V, A
        return A @ V

    __call__ = forward

    def backward(self, dY):
        X, Q, K, V, A = self.cache
        dA = dY @ V.transpose(0, 2, 1)
        dV = A.transpose(0, 2, 1) @ dY
        dS = A * (dA - (dA * A).sum(axis=-1, keepdims=True)) / np.sqrt(Q.shape[-1])
        dQ, dK = dS @ K, dS.transpose(0, 2, 1) @ Q
        dX = 0
        for name, d in (("Wq", dQ), ("Wk", dK), ("Wv", dV)):
            self.grads[name] = np.einsum("btd,bte->de", X, d)
            dX = dX + d @ self.params[name].T
        return dX

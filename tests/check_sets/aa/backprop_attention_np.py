"""Attention from scratch, forward and backward, for the course "Deep Nets by Hand".

Nothing but NumPy.  check_gradient() compares the hand-written gradient with
finite differences.
"""
import numpy as np


def softmax_rows(Z):
    Z = Z - Z.max(axis=-1, keepdims=True)
    E = np.exp(Z)
    return E / E.sum(axis=-1, keepdims=True)


class SelfAttention:
    """Single-head causal attention on a batch: X [B, T, C] -> [B, T, C]"""

    def __init__(self, width=8, inner=6, seed=0):
        rng = np.random.default_rng(seed)
        self.params = {
            "Wq": rng.normal(size=(width, inner)) / np.sqrt(width),
            "Wk": rng.normal(size=(width, inner)) / np.sqrt(width),
            "Wv": rng.normal(size=(width, inner)) / np.sqrt(width),
            "Wo": rng.normal(size=(inner, width)) / np.sqrt(inner),
        }
        self.grads = {}

    def forward(self, X):
        p = self.params
        Q, K, V = X @ p["Wq"], X @ p["Wk"], X @ p["Wv"]
        T, d = X.shape[1], Q.shape[-1]
        S = Q @ K.transpose(0, 2, 1) / np.sqrt(d)
        S[:, ~np.tri(T, dtype=bool)] = -np.inf
        A = softmax_rows(S)
        Y = A @ V
        self.tape = X, Q, K, V, A, Y
        return Y @ p["Wo"]

    __call__ = forward

    def backward(self, dOut):
        X, Q, K, V, A, Y = self.tape
        p, d = self.params, Q.shape[-1]
        flat = lambda M: M.reshape(-1, M.shape[-1])
        self.grads["Wo"] = flat(Y).T @ flat(dOut)
        dY = dOut @ p["Wo"].T
        dA = dY @ V.transpose(0, 2, 1)
        dV = A.transpose(0, 2, 1) @ dY
        # softmax: dS = A * (dA - <dA, A>)
        dS = A * (dA - (dA * A).sum(-1, keepdims=True)) / np.sqrt(d)
        dQ = dS @ K
        dK = dS.transpose(0, 2, 1) @ Q
        dX = 0
        for name, g in (("Wq", dQ), ("Wk", dK), ("Wv", dV)):
            self.grads[name] = flat(X).T @ flat(g)
            dX = dX + g @ p[name].T
        return dX


def check_gradient(layer, X, eps=1e-6):
    rng = np.random.default_rng(1)
    R = rng.normal(size=layer(X).shape)
    dX = layer.backward(R)
    worst = 0.0
    for idx in [tuple(rng.integers(0, s) for s in X.shape) for _ in range(10)]:
        up, down = X.copy(), X.copy()
        up[idx] += eps
        down[idx] -= eps
        num = ((layer(up) - layer(down)) * R).sum() / (2 * eps)
        worst = max(worst, abs(num - dX[idx]))
    return worst

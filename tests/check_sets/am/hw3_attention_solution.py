# Homework 3, problem 2: scaled dot product attention, forward and backward, by hand.
# Rules: NumPy only, no autograd. Every layer keeps what it needs in self.cache.
import numpy as np


class Softmax:
    def forward(self, Z):
        Z = Z - np.max(Z, axis=-1, keepdims=True)
        E = np.exp(Z)
        self.A = E / np.sum(E, axis=-1, keepdims=True)
        return self.A

    def backward(self, dA):
        inner = np.sum(dA * self.A, axis=-1, keepdims=True)
        return self.A * (dA - inner)


class ScaledDotProductAttention:
    """
    Q: (N, ..., L, E)   K: (N, ..., S, E)   V: (N, ..., S, Ev)
    mask: (N, ..., L, S) or broadcastable; True marks positions that are to be IGNORED
    Z: (N, ..., L, Ev)
    """

    def __init__(self):
        self.eps = 1e10
        self.softmax = Softmax()

    def forward(self, Q, K, V, mask=None):
        self.Q, self.K, self.V = Q, K, V
        E = Q.shape[-1]
        scaled = np.matmul(Q, np.swapaxes(K, -1, -2)) / np.sqrt(E)
        if mask is not None:
            scaled = np.where(mask, -self.eps, scaled)
        self.mask = mask
        self.attention_scores = self.softmax.forward(scaled)
        return np.matmul(self.attention_scores, V)

    def backward(self, dZ):
        A = self.attention_scores
        E = self.Q.shape[-1]
        dV = np.matmul(np.swapaxes(A, -1, -2), dZ)
        dA = np.matmul(dZ, np.swapaxes(self.V, -1, -2))
        dS = self.softmax.backward(dA) / np.sqrt(E)
        if self.mask is not None:
            dS = np.where(self.mask, 0.0, dS)
        dQ = np.matmul(dS, self.K)
        dK = np.matmul(np.swapaxes(dS, -1, -2), self.Q)
        return dQ, dK, dV


class Linear:
    def __init__(self, W, b):
        self.W, self.b = W, b

    def forward(self, A):
        self.A = A
        return A @ self.W.T + self.b

    def backward(self, dZ):
        flat_d, flat_a = dZ.reshape(-1, dZ.shape[-1]), self.A.reshape(-1, self.A.shape[-1])
        self.dW = flat_d.T @ flat_a
        self.db = flat_d.sum(0)
        return dZ @ self.W


def numeric_grad(f, X, h=1e-6):
    g = np.zeros_like(X)
    it = np.nditer(X, flags=["multi_index"])
    for _ in it:
        ix = it.multi_index
        old = X[ix]
        X[ix] = old + h
        up = f()
        X[ix] = old - h
        down = f()
        X[ix] = old
        g[ix] = (up - down) / (2 * h)
    return g


def problem_2c(seed=0):
    rng = np.random.default_rng(seed)
    Q, K, V = (rng.normal(size=s) for s in [(2, 3, 4), (2, 5, 4), (2, 5, 6)])
    G = rng.normal(size=(2, 3, 6))
    layer = ScaledDotProductAttention()
    layer.forward(Q, K, V)
    dQ, _, _ = layer.backward(G)
    num = numeric_grad(lambda: np.sum(ScaledDotProductAttention().forward(Q, K, V) * G), Q)
    return np.abs(dQ - num).max()

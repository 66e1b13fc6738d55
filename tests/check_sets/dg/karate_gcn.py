# Graph notebook 1: two GCN layers on Zachary's karate club, numpy only
import numpy as np


def normalise(A):
    """D^-1/2 (A + I) D^-1/2"""
    A = A + np.eye(len(A))
    d = A.sum(1) ** -0.5
    return d[:, None] * A * d[None, :]


class GCN:
    def __init__(self, fin, hidden=8, classes=2, seed=0):
        r = np.random.default_rng(seed)
        self.W1 = r.normal(0, fin ** -0.5, (fin, hidden))
        self.W2 = r.normal(0, hidden ** -0.5, (hidden, classes))

    def __call__(self, X, A):
        """X (N, fin), A (N, N) symmetric 0/1 -> class probabilities (N, classes)"""
        S = normalise(A)
        H = np.maximum(S @ X @ self.W1, 0)
        Z = S @ H @ self.W2
        Z = np.exp(Z - Z.max(1, keepdims=True))
        return Z / Z.sum(1, keepdims=True)

    def loss(self, X, A, y):
        P = self(X, A)
        return -np.log(P[np.arange(len(y)), y] + 1e-12).mean()

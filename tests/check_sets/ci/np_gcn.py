"""Two-layer graph convolution network (Kipf & Welling) in NumPy, forward pass and loss."""
import numpy as np


def normalise(adj):
    """D^-1/2 (A + I) D^-1/2"""
    a = adj + np.eye(adj.shape[0])
    d = 1.0 / np.sqrt(a.sum(axis=1))
    return a * d[:, None] * d[None, :]


def log_softmax(x):
    """class scores -> log probabilities, over the last axis"""
    x = x - x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


class GCN:
    """x (N, F), adj (N, N) symmetric 0/1 without self loops -> log-probs (N, classes)"""

    def __init__(self, features=8, hidden=16, classes=3, seed=0):
        rng = np.random.default_rng(seed)
        self.W0 = rng.normal(size=(features, hidden)) * np.sqrt(2.0 / features)
        self.W1 = rng.normal(size=(hidden, classes)) * np.sqrt(1.0 / hidden)
        self.b0 = np.zeros(hidden)
        self.b1 = np.zeros(classes)

    def __call__(self, x, adj):
        a = normalise(adj)
        h = np.maximum(a @ (x @ self.W0) + self.b0, 0.0)
        return log_softmax(a @ (h @ self.W1) + self.b1)

    def loss(self, x, adj, labels, train):
        """mean negative log likelihood of the training nodes (bool mask, N)"""
        lp = self(x, adj)
        return -lp[np.arange(len(labels)), labels][train].mean()

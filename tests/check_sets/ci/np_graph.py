"""Dense graph transformer layer in NumPy: nodes attend only to their neighbours."""
import numpy as np


def stable_softmax(s):
    s = s - s.max(axis=-1, keepdims=True)
    e = np.exp(s)
    return e / e.sum(axis=-1, keepdims=True)


class GraphLayer:
    """x (N, F) node features; adj (N, N) 0/1, adj[i, j] = 1 when i may read from j.

    Self loops are added. Nodes without an edge must have no influence on each other.
    """

    def __init__(self, features=8, heads=2, seed=0):
        rng = np.random.default_rng(seed)
        self.heads = heads
        self.d = features // heads
        shape = (heads, features, self.d)
        self.Wq = rng.normal(size=shape) / np.sqrt(features)
        self.Wk = rng.normal(size=shape) / np.sqrt(features)
        self.Wv = rng.normal(size=shape) / np.sqrt(features)
        self.Wo = rng.normal(size=(features, features)) / np.sqrt(features)

    def __call__(self, x, adj):
        n = x.shape[0]
        adj = np.maximum(adj, np.eye(n))
        outs = []
        for h in range(self.heads):
            q, k, v = x @ self.Wq[h], x @ self.Wk[h], x @ self.Wv[h]
            scores = q @ k.T / np.sqrt(self.d)
            scores = scores * adj
            outs.append(stable_softmax(scores) @ v)
        y = np.concatenate(outs, axis=-1) @ self.Wo
        return x + np.maximum(y, 0.0)

import numpy as np


class MultiQueryStream:
    """Multi-query attention (one shared key/value head) fed piece by piece.

    push(x) takes the next (n, D) tokens and returns their (n, D) outputs; feeding a text at once or in
    pieces gives the same outputs.
    """

    def __init__(self, D, heads, seed=0):
        r = np.random.default_rng(seed)
        self.h, self.d = heads, D // heads
        self.Wq = r.normal(size=(D, heads, self.d)) / D ** 0.5
        self.Wkv = r.normal(size=(D, 2 * self.d)) / D ** 0.5
        self.Wo = r.normal(size=(heads, self.d, D)) / D ** 0.5
        self.reset()

    def reset(self):
        self.mem = np.empty((0, 2 * self.d))

    def push(self, x):
        n = len(x)
        self.mem = np.concatenate([self.mem, x @ self.Wkv])
        K, V = np.hsplit(self.mem, 2)
        q = np.tensordot(x, self.Wq, 1)                       # n h d
        s = np.einsum("nhd,md->hnm", q, K) / np.sqrt(self.d)
        s += np.triu(np.full((n, len(K)), -np.inf), len(K) - n + 1)
        w = np.exp(s - s.max(2, keepdims=True))
        w /= w.sum(2, keepdims=True)
        return np.einsum("hnm,md,hde->ne", w, V, self.Wo)

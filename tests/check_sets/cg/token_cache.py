"""Prefix cache for the code-completion service.

``CompletionSession`` keeps the keys and values of the file typed so far.  The editor
sends small chunks of new tokens; ``push`` runs causal softmax attention for the chunk
(each new token sees the whole cached prefix and the chunk up to itself) and appends the
chunk to the cache.
"""
import numpy as np


def row_weights(scores, keep):
    """Softmax over the last axis restricted to ``keep``."""
    kept = np.where(keep, scores, 0.0)
    return kept / kept.sum(axis=-1, keepdims=True)


class Cache:
    def __init__(self):
        self.k = None
        self.v = None

    def __len__(self):
        return 0 if self.k is None else self.k.shape[1]

    def append(self, k, v):
        if self.k is None:
            self.k, self.v = k, v
        else:
            self.k = np.concatenate((self.k, k), axis=1)
            self.v = np.concatenate((self.v, v), axis=1)
        return self.k, self.v


class CompletionSession:
    def __init__(self, weights, n_heads):
        self.weights = weights
        self.n_heads = n_heads
        self.cache = Cache()

    @staticmethod
    def make_weights(width=16, seed=0):
        rng = np.random.default_rng(seed)
        return {n: rng.standard_normal((width, width)) / np.sqrt(width) for n in "qkvo"}

    def _project(self, name, x):
        n, width = x.shape
        y = (x @ self.weights[name]).reshape(n, self.n_heads, width // self.n_heads)
        return np.transpose(y, (1, 0, 2))

    def push(self, x):
        """x [n, width]: hidden states of the new tokens -> [n, width]"""
        n, width = x.shape
        q = self._project("q", x)
        k, v = self.cache.append(self._project("k", x), self._project("v", x))
        scores = np.matmul(q, np.transpose(k, (0, 2, 1))) / np.sqrt(q.shape[-1])
        keep = np.tril(np.ones((n, k.shape[1]), dtype=bool))
        y = np.matmul(row_weights(scores, keep), v)
        return np.transpose(y, (1, 0, 2)).reshape(n, width) @ self.weights["o"]


if __name__ == "__main__":
    session = CompletionSession(CompletionSession.make_weights(), n_heads=2)
    chunk = np.random.default_rng(1).standard_normal((3, 16))
    print(session.push(chunk).shape, len(session.cache))
    print(session.push(chunk[:2]).shape, len(session.cache))

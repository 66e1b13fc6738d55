import numpy as np


class SnippetMatcher:
    """Match a text query against tokens of a code snippet.

    weights = softmax(Q K^T / sqrt(d)) over the snippet tokens with keep == 1;
    tokens with keep == 0 (comments, blank) get weight exactly 0. At least one token is kept.
    """

    def __init__(self, dim, d=16, seed=7):
        rng = np.random.RandomState(seed)
        self.d = d
        self.Wq = rng.randn(dim, d) * dim ** -0.5
        self.Wk = rng.randn(dim, d) * dim ** -0.5
        self.Wv = rng.randn(dim, d) * dim ** -0.5
        self.scale = d ** -0.5

    def weights(self, query, snippet, keep):
        """query (m, dim), snippet (n, dim), keep (n,) of 0/1 -> (m, n)"""
        q, k = query @ self.Wq, snippet @ self.Wk
        logits = q @ k.T / self.scale
        logits = logits * np.asarray(keep)[None, :]
        logits = logits - logits.max(axis=1, keepdims=True)
        e = np.exp(logits)
        return e / e.sum(axis=1, keepdims=True)

    def __call__(self, query, snippet, keep):
        w = self.weights(query, snippet, keep)
        return w @ (snippet @ self.Wv)

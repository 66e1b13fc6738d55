import numpy as np


class StoryMemory:
    """One-hop key-value memory for short stories, hand written forward pass.

    Facts are stored as bags of words. Unused slots (used == 0) must not
    contribute to the answer.
    """

    def __init__(self, vocab, dim, rng=None):
        rng = rng or np.random.default_rng(3)
        self.A = rng.normal(0, 0.5, (vocab, dim))
        self.C = rng.normal(0, 0.5, (vocab, dim))
        self.B = rng.normal(0, 0.5, (vocab, dim))
        self.W = rng.normal(0, 0.5, (dim, vocab))

    def answer(self, facts, used, question):
        """facts (N, S, vocab) counts, used (N, S) 0/1, question (N, vocab) counts
        -> word probabilities (N, vocab), slot probabilities (N, S)"""
        keys = facts @ self.A
        vals = facts @ self.C
        u = question @ self.B
        z = np.einsum("nd,nsd->ns", u, keys)
        z = z * used
        z = z - z.max(axis=1, keepdims=True)
        p = np.exp(z)
        p = p / p.sum(axis=1, keepdims=True)
        o = np.einsum("ns,nsd->nd", p, vals)
        logit = (u + o) @ self.W
        logit = logit - logit.max(axis=1, keepdims=True)
        y = np.exp(logit)
        return y / y.sum(axis=1, keepdims=True), p

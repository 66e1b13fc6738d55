"""Relative attention over note events, in the style used for long piano pieces."""
import numpy as np


class MelodyMemory:
    """Causal attention with learned distance vectors.

    score(i, j) = (q_i . k_j + q_i . r_{i-j}) / sqrt(d)   for j <= i
    Distances beyond ``span - 1`` share the last vector.
    Internally the table of scores is kept as (head, key, query).
    """

    def __init__(self, width, heads, span=32, seed=0):
        g = np.random.default_rng(seed)
        self.heads, self.d, self.span = heads, width // heads, span
        self.Wq = g.normal(size=(width, heads, self.d)) / np.sqrt(width)
        self.Wk = g.normal(size=(width, heads, self.d)) / np.sqrt(width)
        self.Wv = g.normal(size=(width, heads, self.d)) / np.sqrt(width)
        self.Wo = g.normal(size=(heads, self.d, width)) / np.sqrt(width)
        self.r = g.normal(size=(span, heads, self.d)) * 0.3

    def __call__(self, notes):
        n = notes.shape[0]
        q = np.einsum("nw,whd->hnd", notes, self.Wq)
        k = np.einsum("nw,whd->hnd", notes, self.Wk)
        v = np.einsum("nw,whd->hnd", notes, self.Wv)
        key, query = np.indices((n, n))
        dist = np.clip(query - key, 0, self.span - 1)
        table = np.einsum("hkd,hqd->hkq", k, q)
        table += np.einsum("kqhd,hqd->hkq", self.r[dist], q)
        table /= np.sqrt(self.d)
        table[:, key > query] = -np.inf
        table = np.exp(table - table.max(axis=1, keepdims=True))
        table /= table.sum(axis=1, keepdims=True)
        return np.einsum("hkq,hkd,hdw->qw", table, v, self.Wo)

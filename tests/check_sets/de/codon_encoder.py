import numpy as np


def row_softmax(a):
    """a: (..., n) -> same shape, rows sum to one"""
    e = np.exp(a - a.max(axis=-1, keepdims=True))
    return e / np.exp(a).sum(axis=-1, keepdims=True)


class CodonEncoder:
    """Self-attention over the codons of a gene; 64 codons plus stop padding (id 64)."""

    def __init__(self, dim=16, heads=2, seed=1):
        r = np.random.RandomState(seed)
        self.dim, self.heads = dim, heads
        self.emb = r.randn(65, dim)
        self.W = {n: r.randn(dim, dim) / dim ** 0.5 for n in ("query", "key", "value", "out")}

    def split(self, t):
        b, n, _ = t.shape
        return t.reshape(b, n, self.heads, -1).transpose(0, 2, 1, 3)

    def forward(self, codons):
        """codons: (B, L) ints, at least one real codon per gene -> (B, L, dim)"""
        x = self.emb[codons]
        q, k, v = (self.split(x @ self.W[n]) for n in ("query", "key", "value"))
        s = q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1])
        s = np.where((codons == 64)[:, None, None, :], -1e30, s)
        y = row_softmax(s) @ v
        b, h, n, d = y.shape
        return x + y.transpose(0, 2, 1, 3).reshape(b, n, h * d) @ self.W["out"]

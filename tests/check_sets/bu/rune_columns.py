"""Rune stones, transliterated by someone who thinks in Julia.

CONVENTION: a sequence is a matrix with one COLUMN per rune (features x runes),
as in Flux.jl.  So scores are K' * Q, of size (keys x queries), and every column
of the weights sums to one.  Functions ending in _b write into their first
argument (Julia's `!`).
"""
import numpy as np


def softmax_b(A, dims=0):
    A -= A.max(axis=dims, keepdims=True)
    np.exp(A, out=A)
    A /= A.sum(axis=dims, keepdims=True)
    return A


def mul_b(C, A, B):
    np.matmul(A, B, out=C)
    return C


def causal_b(S):
    """A rune reads itself and those carved before it: key row i, query column j, i <= j."""
    nk, nq = S.shape
    i, j = np.ogrid[:nk, :nq]
    S[i > j + (nk - nq)] = -np.inf
    return S


def eachhead(X, nheads):
    d = X.shape[0] // nheads
    return [X[h * d:(h + 1) * d, :] for h in range(nheads)]


def attention(Q, K, V, nheads=1, causal=True):
    """Q (d x nq), K (d x nk), V (dv x nk)  ->  (dv x nq)

    With causal=True the last query is level with the last key.
    """
    out = np.empty((V.shape[0], Q.shape[1]), Q.dtype)
    S = np.empty((K.shape[1], Q.shape[1]), Q.dtype)
    for q, k, v, o in zip(*(eachhead(X, nheads) for X in (Q, K, V, out))):
        mul_b(S, k.T, q)
        S /= np.sqrt(q.shape[0])
        if causal:
            causal_b(S)
        softmax_b(S)
        mul_b(o, v, S)
    return out


class Dense:
    def __init__(self, fan_in_out, rng):
        n_in, n_out = fan_in_out
        self.W = rng.standard_normal((n_out, n_in)) * np.sqrt(1 / n_in)
        self.b = np.zeros((n_out, 1))

    def __call__(self, X):
        return self.W @ X + self.b


class RuneReader:
    futhark = "fuþarkgwhnijïpzstbemlŋdo"

    def __init__(self, d=16, nheads=2, seed=1):
        r = np.random.default_rng(seed)
        n = len(self.futhark)
        self.E = r.standard_normal((d, n))
        self.q, self.k, self.v, self.o = (Dense((d, d), r) for _ in range(4))
        self.nheads = nheads

    def __call__(self, text):
        X = self.E[:, [self.futhark.index(c) for c in text]]
        Y = attention(self.q(X), self.k(X), self.v(X), self.nheads)
        return self.E.T @ (X + self.o(Y))


if __name__ == "__main__":
    print(RuneReader()("fuþark").shape)

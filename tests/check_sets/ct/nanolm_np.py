"""A very small language model's attention in numpy, for the lecture notes."""
import numpy as np


def rows_softmax(a):
    a = a - np.max(a, axis=-1, keepdims=True)
    a = np.exp(a)
    return a / np.sum(a, axis=-1, keepdims=True)


def split(x, h):
    """(L, E) -> (h, L, E/h)"""
    L, E = x.shape
    return x.reshape(L, h, E // h).transpose(1, 0, 2)


def causal_mha(x, w, h=2):
    """
    Scaled dot-product self-attention of one text.

    x : (L, E) token vectors
    w : dict with 'q', 'k', 'v', 'o', each (E, E), applied from the right
    h : number of heads

    Token i reads tokens 0..i and nothing after it. Returns (L, E) and the
    weights (h, L, L).
    """
    L, E = x.shape
    q, k, v = (split(x @ w[n], h) for n in "qkv")
    s = q @ k.transpose(0, 2, 1)
    future = np.triu(np.ones((L, L), dtype=bool), k=2)
    s = np.where(future, -np.inf, s)
    p = rows_softmax(s)
    y = (p @ v).transpose(1, 0, 2).reshape(L, E)
    return y @ w["o"], p


def random_weights(E=16, seed=1):
    g = np.random.default_rng(seed)
    return {n: g.standard_normal((E, E)) / np.sqrt(E) for n in "qkvo"}


if __name__ == "__main__":
    out, p = causal_mha(np.random.default_rng(0).standard_normal((6, 16)), random_weights())
    print(out.shape, p.sum(-1))

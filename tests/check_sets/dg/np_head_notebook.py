# Week 5 notebook: one head of a language model, numpy only
import numpy as np


def softmax(z):
    z = z - z.max(axis=-1, keepdims=True)
    e = np.exp(z)
    return e / e.sum(axis=-1, keepdims=True)


class CausalHead:
    """One head of a decoder-only model.

    x: (T, C) token vectors of one sequence
    returns: (T, d)
    """

    def __init__(self, C=16, d=8, seed=0):
        rng = np.random.default_rng(seed)
        self.d = d
        self.Wq = rng.normal(0, C ** -0.5, (C, d))
        self.Wk = rng.normal(0, C ** -0.5, (C, d))
        self.Wv = rng.normal(0, C ** -0.5, (C, d))

    def __call__(self, x):
        T = x.shape[0]
        q, k, v = x @ self.Wq, x @ self.Wk, x @ self.Wv
        wei = q @ k.T / np.sqrt(self.d)
        future = np.triu(np.ones((T, T), dtype=bool), 1)
        wei = np.where(future, -np.inf, wei)
        return softmax(wei) @ v


if __name__ == "__main__":
    h = CausalHead()
    print(h(np.random.randn(6, 16)).shape)

"""Neural Turing machine memory in plain numpy (copy task write-up)."""
import numpy as np


def softplus(x):
    return np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0)


def sigmoid(x):
    return 0.5 * (1 + np.tanh(0.5 * x))


class Memory:
    """N rows of M numbers per sample.  Content addressing is
        w_i = softmax_i( beta * cos(key, row_i) ),   beta = strength >= 0
    """

    def __init__(self, batch, N, M, rng=None):
        rng = rng or np.random.default_rng(0)
        self.cells = rng.normal(0, 0.5, size=(batch, N, M))

    def content(self, key, beta):
        # key (batch, M), beta (batch, 1)
        dot = np.einsum("bnm,bm->bn", self.cells, key)
        size = np.linalg.norm(self.cells, axis=2) * np.linalg.norm(key, axis=1, keepdims=True)
        z = beta * dot / (size + 1e-12)
        z = z - z.max(axis=1, keepdims=True)
        w = np.exp(z)
        return w / w.sum(axis=1, keepdims=True)

    def read(self, w):
        return np.einsum("bn,bnm->bm", w, self.cells)

    def write(self, w, erase, add):
        keep = 1 - w[:, :, None] * erase[:, None, :]
        self.cells = self.cells * keep + w[:, :, None] * add[:, None, :]


def rotate(w, shift):
    """shift (batch, 3): probability of moving by -1, 0, +1"""
    return (
        shift[:, 0:1] * np.roll(w, -1, axis=1)
        + shift[:, 1:2] * w
        + shift[:, 2:3] * np.roll(w, 1, axis=1)
    )


def sharpen(w, gamma):
    p = w ** gamma
    return p / p.sum(1, keepdims=True)


class Head:
    def __init__(self, d, M, seed=1):
        r = np.random.default_rng(seed)
        self.M = M
        self.P = r.normal(0, 0.3, size=(d, M + 6))

    def address(self, h, mem, last):
        o = h @ self.P
        key, beta, gate = o[:, : self.M], softplus(o[:, self.M : self.M + 1]), sigmoid(o[:, self.M + 1 : self.M + 2])
        s = np.exp(o[:, self.M + 2 : self.M + 5])
        s = s / s.sum(1, keepdims=True)
        gamma = 1 + softplus(o[:, self.M + 5 :])
        w = gate * mem.content(key, beta) + (1 - gate) * last
        return sharpen(rotate(w, s), gamma)

"""External memory with content addressing (read heads of a memory network).

A controller emits several read keys at once with one sharpness each; every head
reads its own convex combination of the memory rows.  Similarity is the cosine, and
the sharpness beta takes the place of a scale.
"""
import numpy as np


class NoteMemory:
    def __init__(self, rows, width, seed=3):
        self.cells = np.random.default_rng(seed).normal(0, 1, (rows, width))
        self.last_weights = None

    @staticmethod
    def cosine(a, b):
        na = np.linalg.norm(a, axis=-1, keepdims=True)
        nb = np.linalg.norm(b, axis=-1, keepdims=True)
        return (a / (na + 1e-8)) @ (b / (nb + 1e-8)).T

    def address(self, keys, beta):
        z = beta[:, None] * self.cosine(keys, self.cells)
        e = np.exp(z - np.max(z))
        return e / np.sum(e)

    def read(self, keys, beta):
        """keys (heads, width), beta (heads,) -> vectors (heads, width)"""
        self.last_weights = self.address(keys, beta)
        return self.last_weights @ self.cells

    def write(self, weights, erase, add):
        """weights (rows,), erase and add (width,)"""
        self.cells = self.cells * (1 - np.outer(weights, erase)) + np.outer(weights, add)


class Controller:
    """Feed-forward controller: input and what was read -> keys, beta, output."""

    def __init__(self, n_in, n_out, memory, heads=3, seed=4):
        rng = np.random.default_rng(seed)
        width = memory.cells.shape[1]
        self.memory, self.heads, self.width = memory, heads, width
        self.w_key = rng.normal(0, 0.5, (n_in, heads * width))
        self.w_beta = rng.normal(0, 0.5, (n_in, heads))
        self.w_out = rng.normal(0, 0.5, (n_in + heads * width, n_out))

    def step(self, x):
        keys = np.tanh(x @ self.w_key).reshape(self.heads, self.width)
        beta = 1 + np.log1p(np.exp(x @ self.w_beta))
        read = self.memory.read(keys, beta)
        return np.concatenate([x, read.ravel()]) @ self.w_out


if __name__ == "__main__":
    mem = NoteMemory(rows=10, width=6)
    print(Controller(4, 2, mem).step(np.ones(4)))

"""Key-value memory for the museum chatbot: soft lookup over stored facts.

Cosine similarity, sharpened by beta >= 0 (as in the Neural Turing Machine), so
there is no sqrt(d). Facts can be retired; a retired fact gets weight zero.
"""
import numpy as np


class FactMemory:
    def __init__(self, key_dim, value_dim, capacity=16, beta=5.0):
        self.keys = np.zeros((capacity, key_dim))
        self.values = np.zeros((capacity, value_dim))
        self.alive = np.zeros(capacity, dtype=bool)
        self.beta = beta

    def __len__(self):
        return int(self.alive.sum())

    def write(self, key, value):
        free = np.flatnonzero(~self.alive)
        if len(free) == 0:
            raise MemoryError("memory is full")
        i = int(free[0])
        self.keys[i], self.values[i], self.alive[i] = key, value, True
        return i

    def retire(self, i):
        self.alive[i] = False

    def _cosine(self, q):
        qn = q / np.maximum(np.linalg.norm(q, axis=-1, keepdims=True), 1e-12)
        kn = self.keys / np.maximum(np.linalg.norm(self.keys, axis=-1, keepdims=True), 1e-12)
        return qn @ kn.T

    def weights(self, q):
        """q (n, key_dim) -> (n, capacity); rows sum to one, or are 0 if nothing is stored."""
        z = self.beta * self._cosine(q)
        if not self.alive.any():
            return np.zeros_like(z)
        top = z[:, self.alive].max(axis=1, keepdims=True)
        w = np.where(self.alive, np.exp(z - top), 0.0)
        return w / w.sum(axis=1, keepdims=True)

    def read(self, q):
        q = np.atleast_2d(q)
        return self.weights(q) @ self.values


def demo():
    rng = np.random.default_rng(3)
    mem = FactMemory(6, 4)
    ks = rng.normal(size=(5, 6))
    for k in ks:
        mem.write(k, rng.normal(size=4))
    mem.retire(2)
    print(len(mem), mem.read(ks[:2]).round(3))


if __name__ == "__main__":
    demo()

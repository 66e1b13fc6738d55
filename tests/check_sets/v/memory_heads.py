"""External memory that several read heads address by content at once, and one write head changes."""
import numpy as np

EPS = 1e-8


def cosine_similarity(keys, memory):
    """keys (R, W), memory (N, W) -> (R, N)"""
    dots = keys @ memory.T
    norms = np.linalg.norm(keys, axis=1)[:, None] * np.linalg.norm(memory, axis=1)[None, :]
    return dots / (norms + EPS)


def oneplus(x):
    return 1.0 + np.logaddexp(0.0, x)


def content_weighting(memory, keys, strengths):
    z = cosine_similarity(keys, memory) * strengths[:, None]
    z = np.exp(z - z.max())
    return z / z.sum()


class ContentMemory:
    def __init__(self, slots, width, read_heads, controller, seed=0):
        rng = np.random.default_rng(seed)
        self.slots, self.width, self.read_heads = slots, width, read_heads
        self.memory0 = rng.normal(size=(slots, width)) * 0.5
        self.W_read = rng.normal(size=(controller, read_heads * (width + 1))) / np.sqrt(controller)
        self.W_write = rng.normal(size=(controller, 3 * width + 1)) / np.sqrt(controller)

    def start(self):
        return self.memory0.copy()

    def write(self, memory, state):
        w = self.width
        p = state @ self.W_write
        erase = 1 / (1 + np.exp(-p[:w]))
        add = np.tanh(p[w : 2 * w])
        where = content_weighting(memory, p[None, 2 * w : 3 * w], oneplus(p[3 * w :]))[0]
        return memory * (1 - np.outer(where, erase)) + np.outer(where, add)

    def read(self, memory, state):
        p = (state @ self.W_read).reshape(self.read_heads, self.width + 1)
        weights = content_weighting(memory, p[:, :-1], oneplus(p[:, -1]))
        return weights @ memory, weights


def run(mem, states):
    memory, reads = mem.start(), []
    for state in states:
        memory = mem.write(memory, state)
        vectors, _ = mem.read(memory, state)
        reads.append(vectors.ravel())
    return np.stack(reads)


if __name__ == "__main__":
    mem = ContentMemory(slots=10, width=6, read_heads=3, controller=8)
    out = run(mem, np.random.default_rng(1).normal(size=(5, 8)))
    print(out.shape, out[-1].round(3))

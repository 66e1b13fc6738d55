import numpy as np


class State:
    """Keys and values seen so far, [H, n, d]."""

    def __init__(self, heads, dim):
        self.k = np.empty((heads, 0, dim))
        self.v = np.empty((heads, 0, dim))

    @property
    def n(self):
        return self.k.shape[1]

    def extend(self, k, v):
        self.k = np.concatenate((self.k, k), axis=1)
        self.v = np.concatenate((self.v, v), axis=1)


class StreamingBlock:
    def __init__(self, width, heads, seed):
        r = np.random.RandomState(seed)
        self.heads, self.dim = heads, width // heads
        self.Wqkv = r.randn(3, width, heads, self.dim) / np.sqrt(width)
        self.Wo = r.randn(heads, self.dim, width) / np.sqrt(width)
        self.W1, self.W2 = r.randn(width, 2 * width) / np.sqrt(width), r.randn(2 * width, width) / np.sqrt(2 * width)

    def new_state(self):
        return State(self.heads, self.dim)

    @staticmethod
    def rms(x):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)

    def attend(self, x, state):
        q, k, v = np.einsum("lw,cwhd->chld", x, self.Wqkv)
        state.extend(k, v)
        s = np.einsum("hld,hmd->hlm", q, state.k) * self.dim**-0.5
        visible = np.tril(np.ones(s.shape[-2:], dtype=bool))
        s = np.where(visible, s, -np.inf)
        s = np.exp(s - s.max(-1, keepdims=True))
        p = s / s.sum(-1, keepdims=True)
        return np.einsum("hlm,hmd,hdw->lw", p, state.v, self.Wo)

    def __call__(self, x, state):
        x = x + self.attend(self.rms(x), state)
        return x + np.maximum(self.rms(x) @ self.W1, 0) ** 2 @ self.W2


class Streamer:
    """Feeds a long input through the blocks a chunk at a time."""

    def __init__(self, width=16, heads=2, depth=2, chunk=4):
        self.blocks = [StreamingBlock(width, heads, i) for i in range(depth)]
        self.chunk = chunk

    def __call__(self, x):
        states = [b.new_state() for b in self.blocks]
        outs = []
        for i in range(0, len(x), self.chunk):
            h = x[i : i + self.chunk]
            for b, st in zip(self.blocks, states):
                h = b(h, st)
            outs.append(h)
        return np.concatenate(outs)


if __name__ == "__main__":
    x = np.random.RandomState(100).randn(11, 16)
    print(np.abs(Streamer(chunk=4)(x)).mean())

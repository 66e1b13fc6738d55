"""Streaming decoder attention with a rolling (ring) buffer, as in Mistral-7B's inference.

Only the latest `window` keys and values are kept, in slot pos % window, so that memory
does not grow with the transcript. One token per call. The order of the slots does not
matter to the softmax; rotary positions are applied to the keys before they are stored.
"""
import numpy as np


def rope(x, pos, base=10000.0):
    """x: [heads, d], pairs (i, i + d/2)"""
    half = x.shape[-1] // 2
    ang = pos * base ** (-np.arange(half) / half)
    a, b = x[:, :half], x[:, half:]
    return np.concatenate([a * np.cos(ang) - b * np.sin(ang),
                           a * np.sin(ang) + b * np.cos(ang)], axis=1)


class RollingCache:
    def __init__(self, window, heads, d):
        self.window = window
        self.k = np.zeros((window, heads, d))
        self.v = np.zeros((window, heads, d))
        self.pos = 0

    @property
    def filled(self):
        return min(self.pos, self.window)

    def append(self, k, v):
        slot = self.pos % self.window
        self.k[slot] = k
        if self.pos < self.window:
            self.v[slot] = v
        else:
            self.v = np.concatenate([self.v[1:], v[None]])
        self.pos += 1

    def view(self):
        n = self.filled
        return self.k[:n], self.v[:n]


class StreamingAttention:
    def __init__(self, dim=24, heads=3, window=4, seed=0):
        r = np.random.default_rng(seed)
        self.heads, self.d = heads, dim // heads
        self.window = window
        w = lambda: r.normal(0.0, dim ** -0.5, (dim, dim))
        self.wq, self.wk, self.wv, self.wo = w(), w(), w(), w()
        self.new_session()

    def new_session(self):
        self.cache = RollingCache(self.window, self.heads, self.d)

    def step(self, x):
        """x: [dim], the hidden state of the newest token. Returns [dim]."""
        pos = self.cache.pos
        q = rope((x @ self.wq).reshape(self.heads, self.d), pos)
        k = rope((x @ self.wk).reshape(self.heads, self.d), pos)
        v = (x @ self.wv).reshape(self.heads, self.d)
        self.cache.append(k, v)

        keys, values = self.cache.view()
        s = np.einsum("hd,nhd->hn", q, keys) / np.sqrt(self.d)
        s = s - s.max(axis=1, keepdims=True)
        p = np.exp(s)
        p = p / p.sum(axis=1, keepdims=True)
        y = np.einsum("hn,nhd->hd", p, values)
        return y.reshape(-1) @ self.wo

    def run(self, xs):
        """xs: [n, dim], a whole utterance, from an empty cache."""
        self.new_session()
        return np.stack([self.step(x) for x in xs])


if __name__ == "__main__":
    att = StreamingAttention()
    print(att.run(np.random.default_rng(1).normal(size=(9, 24))).shape)

#!/usr/bin/env python3
"""npgen: text generator of the "no frameworks" challenge. Weights come from an .npz."""
import numpy as np


def rms(x, g, eps=1e-6):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * g


def rotate(x, pos, base=1e4):
    # x: (L, heads, d), half-split pairs (i, i + d/2)
    half = x.shape[-1] // 2
    inv = base ** (-np.arange(half) / half)
    t = pos[:, None] * inv
    c, s = np.cos(t)[:, None], np.sin(t)[:, None]
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * c - b * s, b * c + a * s], -1)


class RotaryDecoder:
    """One attention layer that remembers what it has been fed.

    feed(x) takes the next tokens (L, dim) of the sequence, in as many pieces as one
    likes, and gives (L, dim). forget() starts a new sequence.
    """

    def __init__(self, w, heads):
        self.w = w
        self.heads = heads
        self.forget()

    @classmethod
    def random(cls, dim=16, heads=2, seed=0):
        r = np.random.default_rng(seed)
        w = {n: r.normal(0, dim**-0.5, (dim, dim)) for n in ("q", "k", "v", "o")}
        w["g"] = np.ones(dim)
        return cls(w, heads)

    def forget(self):
        self.K = None
        self.V = None

    def _split(self, t):
        return t.reshape(len(t), self.heads, -1)

    def feed(self, x):
        x = rms(x, self.w["g"])
        q, k, v = (self._split(x @ self.w[n]) for n in "qkv")
        pos = np.arange(len(x))
        q, k = rotate(q, pos), rotate(k, pos)
        if self.K is None:
            self.K, self.V = k, v
        else:
            self.K = np.concatenate([self.K, k])
            self.V = np.concatenate([self.V, v])
        n, m = len(q), len(self.K)
        s = np.einsum("qhd,khd->hqk", q, self.K) / np.sqrt(q.shape[-1])
        s = np.where(np.tri(n, m, m - n, dtype=bool), s, -np.inf)
        s = np.exp(s - s.max(-1, keepdims=True))
        p = s / s.sum(-1, keepdims=True)
        return np.einsum("hqk,khd->qhd", p, self.V).reshape(n, -1) @ self.w["o"]


if __name__ == "__main__":
    d = RotaryDecoder.random()
    print(d.feed(np.random.randn(5, 16)).shape)

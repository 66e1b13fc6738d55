"""Streaming attention with sink tokens (StreamingLLM idea), NumPy.

The first `n_sink` tokens are never thrown away; besides them only the last
`window` tokens, the current one included, are kept.  step() takes one token
at a time, full() does the same for a whole sequence with a mask.
"""
import numpy as np
from dataclasses import dataclass


@dataclass
class StreamConfig:
    dim: int = 16
    heads: int = 2
    n_sink: int = 2
    window: int = 4
    seed: int = 0


class SinkCache:
    def __init__(self, n_sink, window):
        self.n_sink, self.window = n_sink, window
        self.sink, self.recent = [], []

    def push(self, k, v):
        if len(self.sink) < self.n_sink:
            self.sink.append((k, v))
        else:
            self.recent.append((k, v))
            if len(self.recent) > self.window:
                self.recent.pop(0)

    def read(self):
        pairs = self.sink + self.recent
        return np.stack([p[0] for p in pairs], 1), np.stack([p[1] for p in pairs], 1)


class StreamingAttention:
    """x [T, dim] -> [T, dim]"""

    def __init__(self, cfg=StreamConfig()):
        self.cfg = cfg
        rng = np.random.default_rng(cfg.seed)
        self.hd = cfg.dim // cfg.heads
        self.wq, self.wk, self.wv, self.wo = rng.normal(0, cfg.dim ** -0.5, (4, cfg.dim, cfg.dim))
        self.reset()

    def reset(self):
        self.cache = SinkCache(self.cfg.n_sink, self.cfg.window)

    def _heads(self, x):
        return np.moveaxis(x.reshape(-1, self.cfg.heads, self.hd), 1, 0)   # [H, T, d]

    @staticmethod
    def _softmax(s):
        e = np.exp(s - s.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    def step(self, x):
        """One token, x [dim]."""
        q, k, v = (self._heads(x @ w)[:, 0] for w in (self.wq, self.wk, self.wv))
        self.cache.push(k, v)
        K, V = self.cache.read()                                  # [H, n, d]
        a = self._softmax(np.einsum("hd,hnd->hn", q, K) / np.sqrt(self.hd))
        return np.einsum("hn,hnd->hd", a, V).reshape(-1) @ self.wo

    def stream(self, x):
        self.reset()
        return np.stack([self.step(t) for t in x])

    def full(self, x):
        q, k, v = (self._heads(x @ w) for w in (self.wq, self.wk, self.wv))
        i, j = np.ogrid[: len(x), : len(x)]
        keep = (j <= i) & ((j < self.cfg.n_sink) | (i - j < self.cfg.window))
        s = np.where(keep, q @ k.swapaxes(-1, -2) / np.sqrt(self.hd), -np.inf)
        y = self._softmax(s) @ v
        return np.moveaxis(y, 0, 1).reshape(len(x), -1) @ self.wo

    __call__ = full

"""StreamingLLM-style cache: attention sinks + a rolling window (numpy).

The first ``n_sink`` tokens are never evicted; of the rest only the latest
``window`` stay (the new token included).  Keys are stored un-rotated.  As in
Xiao et al. 2023, rotary positions are those *inside the cache* (0 .. n-1), not
those of the text, and the query sits at position n-1.  Pairs of the rotary
embedding are neighbours (2i, 2i+1).
"""
import numpy as np


def rotate(x, pos, base=10000.0):
    """x (..., n, d) at positions pos (n,); complex multiplication of pairs."""
    d = x.shape[-1]
    theta = base ** (-np.arange(0, d, 2) / d)
    turn = np.exp(1j * pos[:, None] * theta)
    z = (x[..., 0::2] + 1j * x[..., 1::2]) * turn
    out = np.empty(x.shape)
    out[..., 0::2], out[..., 1::2] = z.real, z.imag
    return out


class EndlessCache:
    def __init__(self, n_sink=2, window=5):
        self.n_sink = n_sink
        self.window = window
        self.k = None  # (H, n, d)
        self.v = None

    def __len__(self):
        return 0 if self.k is None else self.k.shape[1]

    def push(self, k, v):
        """k, v: (H, d)"""
        k, v = k[:, None], v[:, None]
        if self.k is None:
            self.k, self.v = k.copy(), v.copy()
            return
        self.k = np.concatenate([self.k, k], axis=1)
        self.v = np.concatenate([self.v, v], axis=1)
        if len(self) > self.n_sink + self.window:
            self.k = np.delete(self.k, self.n_sink, axis=1)
            self.v = np.delete(self.v, self.n_sink, axis=1)

    def read(self, q):
        """q: (H, d) of the newest token -> (H, d)"""
        n, d = len(self), q.shape[-1]
        q = rotate(q[:, None], np.array([n - 1]))
        k = rotate(self.k, np.arange(n))
        s = (q @ k.transpose(0, 2, 1))[:, 0] / np.sqrt(d)
        s = s - s.max(axis=1, keepdims=True)
        w = np.exp(s)
        w = w / w.sum(axis=1, keepdims=True)
        return (w[:, None] @ self.v)[:, 0]


def stream(q, k, v, n_sink=2, window=5):
    """Whole streams (T, H, d), token by token -> (T, H, d)"""
    cache, out = EndlessCache(n_sink, window), []
    for t in range(len(q)):
        cache.push(k[t], v[t])
        out.append(cache.read(q[t]))
    return np.stack(out)

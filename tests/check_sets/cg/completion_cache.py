"""Single-user inference kernel of the editor's completion engine (numpy only).

One attention layer with grouped key/value heads, rotary positions and a growing
cache.  ``extend`` takes the hidden states of the new tokens, ``[n, width]``,
whether that is the whole prompt or one token; rows are positions, and each new
token sees every cached token, the earlier new ones and itself.

Query head ``h`` reads key/value head ``h // (heads // kv_heads)``.
Rotary pairs are neighbours (0,1), (2,3), ... with base 10000.
"""
import numpy as np


class CachedLayer:
    def __init__(self, wq, wk, wv, wo, heads, kv_heads):
        self.wq, self.wk, self.wv, self.wo = wq, wk, wv, wo
        self.heads, self.kv_heads = heads, kv_heads
        self.size = wq.shape[1] // heads
        self.reset()

    @classmethod
    def from_seed(cls, seed=0, width=24, heads=6, kv_heads=2, size=8):
        r = np.random.RandomState(seed)
        mat = lambda a, b: r.randn(a, b) / np.sqrt(a)
        return cls(mat(width, heads * size), mat(width, kv_heads * size),
                   mat(width, kv_heads * size), mat(heads * size, width), heads, kv_heads)

    def reset(self):
        self.k = np.zeros((0, self.kv_heads, self.size))
        self.v = np.zeros((0, self.kv_heads, self.size))

    def _rotate(self, x, start):
        half = self.size // 2
        freq = 10000.0 ** (-np.arange(half) * 2.0 / self.size)
        ang = (start + np.arange(x.shape[0]))[:, None] * freq
        c, s = np.cos(ang)[:, None, :], np.sin(ang)[:, None, :]
        even, odd = x[..., 0::2], x[..., 1::2]
        y = np.empty_like(x)
        y[..., 0::2] = even * c - odd * s
        y[..., 1::2] = even * s + odd * c
        return y

    def extend(self, x):
        past, n = self.k.shape[0], x.shape[0]
        q = self._rotate((x @ self.wq).reshape(n, self.heads, self.size), past)
        k = self._rotate((x @ self.wk).reshape(n, self.kv_heads, self.size), past)
        v = (x @ self.wv).reshape(n, self.kv_heads, self.size)
        self.k = np.concatenate([self.k, k])
        self.v = np.concatenate([self.v, v])

        g = self.heads // self.kv_heads
        q = q.reshape(n, self.kv_heads, g, self.size)
        s = np.einsum("ikgd,jkd->kgij", q, self.k) / np.sqrt(self.size)
        row = past + np.arange(n)[:, None]
        s = np.where(np.arange(past + n)[None, :] <= row, s, -np.inf)
        s -= s.max(axis=-1, keepdims=True)
        p = np.exp(s)
        p /= p.sum(axis=-1, keepdims=True)
        out = np.einsum("kgij,jkd->ikgd", p, self.v)
        return out.reshape(n, self.heads * self.size) @ self.wo


if __name__ == "__main__":
    layer = CachedLayer.from_seed()
    x = np.random.RandomState(1).randn(7, 24)
    whole = layer.extend(x)
    layer.reset()
    parts = np.concatenate([layer.extend(x[:4]), layer.extend(x[4:5]), layer.extend(x[5:])])
    print(np.abs(whole - parts).max())

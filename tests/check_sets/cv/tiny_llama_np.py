"""A Llama decoder layer's attention without any framework, to read and step through.

Weights are plain arrays. Layout everywhere: [time, heads, head_dim]; one sequence at a time.
"""
import numpy as np


class Attention:
    """n_q query heads in groups over n_kv key/value heads: query head h reads kv head h // (n_q // n_kv).

    step(x) takes [T, width] new tokens (any T >= 1), appends to the cache and returns [T, width].
    Causal over cache + new tokens. Rotary in the half-split ("rotate_half") layout, absolute positions.
    """

    def __init__(self, width=32, n_q=4, n_kv=2, theta=10000.0, seed=0):
        g = np.random.default_rng(seed)
        self.d = width // n_q
        self.n_q, self.n_kv = n_q, n_kv
        mk = lambda a, b: g.standard_normal((a, b)) / np.sqrt(a)
        self.Wq = mk(width, n_q * self.d)
        self.Wk = mk(width, n_kv * self.d)
        self.Wv = mk(width, n_kv * self.d)
        self.Wo = mk(n_q * self.d, width)
        self.freq = theta ** (-np.arange(0, self.d, 2) / self.d)
        self.reset()

    def reset(self):
        self.K = np.zeros((0, self.n_kv, self.d))
        self.V = np.zeros((0, self.n_kv, self.d))

    def rope(self, t, start):
        ang = (start + np.arange(len(t)))[:, None, None] * self.freq     # [T,1,d/2]
        a, b = np.split(t, 2, axis=-1)
        c, s = np.cos(ang), np.sin(ang)
        return np.concatenate([a * c - b * s, b * c + a * s], axis=-1)

    def step(self, x):
        T, start = len(x), len(self.K)
        q = self.rope((x @ self.Wq).reshape(T, self.n_q, self.d), start)
        k = self.rope((x @ self.Wk).reshape(T, self.n_kv, self.d), start)
        v = (x @ self.Wv).reshape(T, self.n_kv, self.d)
        self.K = np.concatenate([self.K, k])
        self.V = np.concatenate([self.V, v])

        q = q.reshape(T, self.n_kv, -1, self.d)                          # kv head, group member
        s = np.einsum("tgmd,sgd->gmts", q, self.K) / np.sqrt(self.d)
        late = np.arange(len(self.K))[None, :] > (start + np.arange(T))[:, None]
        s[..., late] = -np.inf
        s -= s.max(-1, keepdims=True)
        np.exp(s, out=s)
        s /= s.sum(-1, keepdims=True)
        y = np.einsum("gmts,sgd->tgmd", s, self.V)
        return y.reshape(T, -1) @ self.Wo

    __call__ = step

"""tinyserve: attention of one decoder layer in NumPy, batch of one, grouped key/value heads."""
import numpy as np


class Layer:
    """w: dict with q [D, Hq*d], k [D, Hkv*d], v [D, Hkv*d], o [Hq*d, D].

    feed(x) takes the next x.shape[0] >= 1 positions and returns their outputs. Feeding a prompt
    in pieces of any sizes gives the same rows as feeding it at once. reset() forgets all.
    Query heads 0..g-1 read kv head 0, the next g read kv head 1, ... with g = Hq / Hkv.
    Rotary embedding: first half of the head with second half, base `theta`.
    """

    def __init__(self, w, Hq, Hkv, theta=10000.0):
        self.w, self.Hq, self.Hkv = w, Hq, Hkv
        self.d = w["q"].shape[1] // Hq
        self.freq = theta ** (-np.arange(0, self.d, 2) / self.d)
        self.reset()

    def reset(self):
        self.K = np.zeros((self.Hkv, 0, self.d))
        self.V = np.zeros((self.Hkv, 0, self.d))

    def spin(self, t, start):
        ang = np.arange(start, start + t.shape[1])[:, None] * self.freq
        c, s = np.cos(ang), np.sin(ang)
        a, b = t[..., : self.d // 2], t[..., self.d // 2:]
        return np.concatenate([a * c - b * s, b * c + a * s], axis=-1)

    def heads(self, m, n):
        return m.reshape(m.shape[0], n, self.d).transpose(1, 0, 2)

    def feed(self, x):
        T, start = x.shape[0], self.K.shape[1]
        q = self.spin(self.heads(x @ self.w["q"], self.Hq), start)
        k = self.spin(self.heads(x @ self.w["k"], self.Hkv), start)
        v = self.heads(x @ self.w["v"], self.Hkv)
        self.K = np.concatenate([self.K, k], axis=1)
        self.V = np.concatenate([self.V, v], axis=1)
        q = q.reshape(self.Hkv, self.Hq // self.Hkv, T, self.d)
        s = np.einsum("ngtd,nsd->ngts", q, self.K) / np.sqrt(self.d)
        ahead = np.arange(start + T)[None, :] > np.arange(start, start + T)[:, None]
        s[..., ahead] = -np.inf
        s = np.exp(s - s.max(axis=-1, keepdims=True))
        s /= s.sum(axis=-1, keepdims=True)
        y = np.einsum("ngts,nsd->tngd", s, self.V)
        return y.reshape(T, self.Hq * self.d) @ self.w["o"]

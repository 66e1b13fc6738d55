import numpy as np


class MHA:
    """Multi-head self-attention with gradients by hand. x: (B, T, D)."""

    def __init__(self, D, h, rng=np.random.default_rng(1)):
        self.h = h
        self.p = {n: rng.normal(0, D ** -0.5, (D, D)) for n in "qkvo"}
        self.g = {}

    def _split(self, t):
        B, T, D = t.shape
        return t.reshape(B, T, self.h, D // self.h).transpose(0, 2, 1, 3)

    def _join(self, t):
        B, h, T, d = t.shape
        return t.transpose(0, 2, 1, 3).reshape(B, T, h * d)

    def forward(self, x):
        q, k, v = (self._split(x @ self.p[n]) for n in "qkv")
        c = q.shape[-1] ** -0.5
        s = c * np.matmul(q, k.swapaxes(-1, -2))
        s -= s.max(-1, keepdims=True)
        a = np.exp(s)
        a /= a.sum(-1, keepdims=True)
        y = self._join(a @ v)
        self.tape = x, q, k, v, a, y, c
        return y @ self.p["o"]

    def backward(self, g):
        x, q, k, v, a, y, c = self.tape
        flat = lambda t: t.reshape(-1, t.shape[-1])
        self.g["o"] = flat(y).T @ flat(g)
        gy = self._split(g @ self.p["o"].T)
        ga = gy @ v.swapaxes(-1, -2)
        gs = a * ga
        gs -= a * gs.sum(-1, keepdims=True)
        gs *= c
        grads = {"q": gs @ k, "k": gs.swapaxes(-1, -2) @ q, "v": a.swapaxes(-1, -2) @ gy}
        gx = np.zeros_like(x)
        for n, t in grads.items():
            t = self._join(t)
            self.g[n] = flat(x).T @ flat(t)
            gx += t @ self.p[n].T
        return gx

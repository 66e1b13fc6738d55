"""ALiBi i NumPy, för att granska exporterade vikter."""
import math
import numpy as np


def lutningar(n):
    """Slopes per head after Press et al.: for n a power of two the geometric series that starts
    at 2^(-8/n) with that same ratio; otherwise filled up from the series for 2m heads."""

    def potens(m):
        bas = 2.0 ** (-8.0 / m)
        return [bas ** i for i in range(m)]

    m = 2 ** int(math.floor(math.log2(n)))
    return np.array(potens(m) + potens(2 * m)[0::2][: n - m])


class Fjarr:
    """Causal self-attention with linear biases, x (B, L, dim) -> (B, L, dim).

    The scaled scores (1/sqrt of the head size) get -slope * distance to the key.
    """

    def __init__(self, dim=24, huvuden=4, fro=0):
        rng = np.random.default_rng(fro)
        self.huvuden = huvuden
        self.Wq, self.Wk, self.Wv, self.Wo = rng.normal(size=(4, dim, dim)) / np.sqrt(dim)
        self.lut = lutningar(huvuden)

    def __call__(self, x):
        B, L, D = x.shape
        dela = lambda t: t.reshape(B, L, self.huvuden, -1).swapaxes(1, 2)
        q, k, v = dela(x @ self.Wq), dela(x @ self.Wk), dela(x @ self.Wv)
        s = np.einsum("bhid,bhjd->bhij", q, k) / np.sqrt(D)
        avst = np.arange(L)[:, None] - np.arange(L)[None, :]
        s = s - self.lut[:, None, None] * avst
        s = np.where(avst < 0, -np.inf, s)
        s = s - s.max(axis=-1, keepdims=True)
        p = np.exp(s)
        p /= p.sum(axis=-1, keepdims=True)
        y = np.einsum("bhij,bhjd->bihd", p, v)
        return y.reshape(B, L, D) @ self.Wo

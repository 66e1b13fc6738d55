"""Multi-head attention in plain NumPy (inference only)."""
import numpy as np


def softmax(x, axis=-1):
    m = np.max(x, axis=axis, keepdims=True)
    e = np.exp(x - m)
    return e / np.sum(e, axis=axis, keepdims=True)


class NumpyMHA:
    """query (B, Lq, D), memory (B, Lk, D), mask (B, Lk) bool: True = may be attended.

    Every row of mask needs at least one True. Returns output (B, Lq, D) and
    weights (B, H, Lq, Lk).
    """

    def __init__(self, d_model=16, num_heads=4, seed=0):
        assert d_model % num_heads == 0
        rng = np.random.default_rng(seed)
        self.h = num_heads
        self.d = d_model // num_heads
        init = lambda: rng.normal(0, d_model ** -0.5, (d_model, d_model))
        self.Wq, self.Wk, self.Wv, self.Wo = init(), init(), init(), init()
        self.bo = np.zeros(d_model)

    def _heads(self, x):
        B, L, _ = x.shape
        return x.reshape(B, L, self.h, self.d).transpose(0, 2, 1, 3)

    def __call__(self, query, memory, mask=None):
        q = self._heads(query @ self.Wq)
        k = self._heads(memory @ self.Wk)
        v = self._heads(memory @ self.Wv)
        scores = q @ k.swapaxes(-1, -2) / np.sqrt(self.d)
        if mask is not None:
            scores = np.where(mask[:, None, None, :], scores, -np.inf)
        weights = softmax(scores)
        out = weights @ v
        B, _, L, _ = out.shape
        out = out.transpose(0, 2, 1, 3).reshape(B, L, self.h * self.d)
        return out @ self.Wo + self.bo, weights

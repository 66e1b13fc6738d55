"""Attention pooling of satellite passes for harvest prediction (NumPy).

A field is seen by up to T satellite passes; clouds make some of them useless.
K learned crop-stage queries summarise the clear ones.
Scores are dot products divided by the square root of the head width, the weights
of each query over the clear passes sum to one.
"""
import numpy as np


def stable_softmax(a):
    a = a - a.max(axis=-1, keepdims=True)
    np.exp(a, out=a)
    a /= a.sum(axis=-1, keepdims=True)
    return a


class HarvestPooling:
    def __init__(self, bands=10, width=24, heads=3, stages=4, seed=7):
        rng = np.random.default_rng(seed)
        self.heads = heads
        self.dh = width // heads
        self.stage_queries = rng.standard_normal((stages, width))
        self.Wk = rng.standard_normal((bands, width)) * bands ** -0.5
        self.Wv = rng.standard_normal((bands, width)) * bands ** -0.5
        self.Wout = rng.standard_normal((width, width)) * width ** -0.5

    def _split(self, m):
        """(..., L, width) -> (..., heads, L, dh)"""
        m = m.reshape(m.shape[:-1] + (self.heads, self.dh))
        return np.swapaxes(m, -2, -3)

    def weights(self, passes, clear=None):
        """(B, heads, stages, T)"""
        q = self._split(self.stage_queries)                     # H, S, dh
        k = self._split(passes @ self.Wk)                       # B, H, T, dh
        scores = q @ np.swapaxes(k, -1, -2) / self.dh
        w = stable_softmax(scores)
        if clear is not None:
            w = w * clear[:, None, None, :]
        return w

    def __call__(self, passes, clear=None):
        """
        passes: (B, T, bands) reflectances
        clear:  (B, T) bool or 0/1, 1 = cloud free
        returns (B, stages, width)
        """
        w = self.weights(passes, clear)
        v = self._split(passes @ self.Wv)
        y = np.swapaxes(w @ v, 1, 2)                            # B, S, H, dh
        return y.reshape(y.shape[0], y.shape[1], -1) @ self.Wout

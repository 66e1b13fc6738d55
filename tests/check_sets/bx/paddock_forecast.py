"""Grass-growth forecast per paddock (NumPy inference of the trained net).

The paddocks of a farm exchange what their sensors saw through one multi-head
self-attention layer, softmax(q k' / sqrt(d)) with d the size of one head, and
a linear head gives kg dry matter per hectare for the coming week.
"""
import numpy as np


class PaddockForecaster:
    def __init__(self, params, n_heads=4):
        self.p = params
        self.h = n_heads
        self.width = params["wq"].shape[1]

    @classmethod
    def fresh(cls, n_feat=9, width=24, n_heads=4, seed=0):
        g = np.random.default_rng(seed)
        mk = lambda a, b: g.normal(0, a ** -0.5, (a, b))
        params = {
            "embed": mk(n_feat, width),
            "wq": mk(width, width), "wk": mk(width, width),
            "wv": mk(width, width), "wo": mk(width, width),
            "out": mk(width, 1), "out_b": np.zeros(1),
        }
        return cls(params, n_heads)

    def _split(self, a):
        farms, plots, w = a.shape
        return a.reshape(farms, plots, self.h, w // self.h).transpose(0, 2, 1, 3)

    def mix(self, x, in_use):
        """x: farms x paddocks x width; in_use: farms x paddocks (bool)."""
        p = self.p
        q = self._split(x @ p["wq"])
        k = self._split(x @ p["wk"])
        v = self._split(x @ p["wv"])
        logits = q @ k.swapaxes(-1, -2) / np.sqrt(self.width)
        logits = np.where(in_use[:, None, None, :], logits, -np.inf)
        logits -= logits.max(axis=-1, keepdims=True)
        w = np.exp(logits)
        w /= w.sum(axis=-1, keepdims=True)
        y = (w @ v).transpose(0, 2, 1, 3).reshape(x.shape)
        return x + y @ p["wo"]

    def __call__(self, sensors, in_use):
        x = np.tanh(sensors @ self.p["embed"])
        x = self.mix(x, in_use)
        return (x @ self.p["out"] + self.p["out_b"])[..., 0]

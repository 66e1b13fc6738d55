"""Rotary attention over orbit observations (NumPy port of the flight model).

The time of an observation enters only through rotary embeddings: queries and keys are
rotated by angles that grow with the observation time (seconds, need not be evenly
spaced), the values stay as they are.  A shift of all times thus changes nothing.

Causal in the order of the list: an observation sees itself and earlier entries.
"""
import numpy as np


def rotate(x, seconds, base=1000.0):
    """x [H, L, d] (d even), seconds [L]; pairs (x_i, x_{i + d/2})"""
    half = x.shape[-1] // 2
    freq = base ** (-np.arange(half) / half)
    ang = np.asarray(seconds)[:, None] * freq
    c, s = np.cos(ang), np.sin(ang)
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * c - b * s, a * s + b * c], axis=-1)


def softmax(z):
    z = np.exp(z - z.max(axis=-1, keepdims=True))
    return z / z.sum(axis=-1, keepdims=True)


class OrbitAttention:
    """Weights: dict with "q", "k", "v", "o", all [dim, dim] (x @ W)."""

    def __init__(self, weights=None, dim=24, heads=3, seed=5):
        if weights is None:
            rng = np.random.default_rng(seed)
            weights = {n: rng.normal(0, dim ** -0.5, (dim, dim)) for n in "qkvo"}
        self.w = weights
        self.heads = heads

    def _heads(self, x, name):
        L, D = x.shape
        return (x @ self.w[name]).reshape(L, self.heads, D // self.heads).swapaxes(0, 1)

    def __call__(self, x, seconds):
        """x [L, dim], seconds [L] -> [L, dim]"""
        L, D = x.shape
        q, k, v = (rotate(self._heads(x, n), seconds) for n in "qkv")
        s = q @ k.swapaxes(1, 2) / np.sqrt(D // self.heads)
        s = np.where(np.tri(L, dtype=bool), s, -np.inf)
        y = softmax(s) @ v                       # [H, L, d]
        return y.swapaxes(0, 1).reshape(L, D) @ self.w["o"]


if __name__ == "__main__":
    r = np.random.default_rng(0)
    x = r.normal(size=(6, 24))
    t = np.array([0.0, 1.5, 2.0, 7.0, 9.5, 30.0])
    print(OrbitAttention()(x, t).shape)

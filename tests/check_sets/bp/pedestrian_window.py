"""Local temporal attention over pedestrian tracks (trajectory prediction baseline, numpy inference)."""
from typing import Dict, Optional

import numpy as np


def sample_tracks(n=3, steps=12, seed=0):
    rng = np.random.default_rng(seed)
    vel = rng.normal(size=(n, 1, 2)) + 0.2 * rng.normal(size=(n, steps, 2))
    return np.cumsum(vel, axis=1)


def features(tracks):
    d = np.diff(tracks, axis=1, prepend=tracks[:, :1])
    speed = np.linalg.norm(d, axis=-1, keepdims=True)
    return np.concatenate([d, speed, tracks - tracks[:, -1:]], axis=-1)


def _softmax(z):
    z = z - z.max(axis=-1, keepdims=True)
    e = np.exp(z)
    return e / e.sum(axis=-1, keepdims=True)


def windowed_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, window: int,
                       observed: Optional[np.ndarray] = None) -> np.ndarray:
    """Causal sliding-window attention.

    q, k, v   (tracks, heads, steps, dim) floats
    window    number of steps a query may look at, the current step included
    observed  (tracks, steps) bool, False where the detector lost the person
    """
    steps, dim = q.shape[-2], q.shape[-1]
    q *= dim ** -0.5
    logits = np.matmul(q, np.swapaxes(k, -1, -2))
    age = np.arange(steps)[:, None] - np.arange(steps)[None, :]
    allowed = (age >= 0) & (age <= window)
    allowed = np.broadcast_to(allowed, logits.shape)
    if observed is not None:
        allowed = allowed & observed[:, None, None, :]
    logits = np.where(allowed, logits, np.finfo(logits.dtype).min)
    return np.matmul(_softmax(logits), v)


class TrackEncoder:
    def __init__(self, weights: Dict[str, np.ndarray], heads: int, window: int):
        self.w, self.heads, self.window = weights, heads, window

    def _split(self, x):
        n, t, c = x.shape
        return x.reshape(n, t, self.heads, c // self.heads).transpose(0, 2, 1, 3)

    def __call__(self, tracks, observed=None):
        x = features(tracks) @ self.w["embed"]
        q, k, v = (self._split(x @ self.w[n]) for n in ("q", "k", "v"))
        y = windowed_attention(q, k, v, self.window, observed)
        n, h, t, d = y.shape
        return x + y.transpose(0, 2, 1, 3).reshape(n, t, h * d) @ self.w["o"]


def random_weights(dim=16, seed=1):
    rng = np.random.default_rng(seed)
    w = {n: rng.normal(size=(dim, dim)) / np.sqrt(dim) for n in "qkvo"}
    w["embed"] = rng.normal(size=(5, dim)) / np.sqrt(5)
    return w


if __name__ == "__main__":
    print(TrackEncoder(random_weights(), 2, 4)(sample_tracks()).shape)

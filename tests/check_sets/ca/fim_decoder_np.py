"""Tiny numpy runtime for the fill-in-the-middle model that runs inside the editor plug-in.

`Decoder.forward(x)` may be called with a whole prompt and afterwards with single tokens;
keys and values of everything seen so far stay in the object.  Rotary positions
(rotate-half) count from the start of the session; keys are cached after the rotation.
"""
import numpy as np


def rope_tables(positions, head_dim, base=10000.0):
    inv = base ** (-np.arange(0, head_dim, 2) / head_dim)
    ang = positions[:, None] * inv[None, :]
    ang = np.concatenate([ang, ang], axis=-1)
    return np.cos(ang), np.sin(ang)


def rotate_half(x):
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([-b, a], axis=-1)


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


class Decoder:
    def __init__(self, dim=32, n_head=4, seed=0):
        rng = np.random.default_rng(seed)
        self.n_head = n_head
        self.head_dim = dim // n_head
        self.w_in = rng.normal(0, dim ** -0.5, (dim, 3 * dim))
        self.w_out = rng.normal(0, dim ** -0.5, (dim, dim))
        self.reset()

    def reset(self):
        self.past_k = np.empty((self.n_head, 0, self.head_dim))
        self.past_v = np.empty((self.n_head, 0, self.head_dim))

    def forward(self, x):
        t, dim = x.shape
        past = self.past_k.shape[1]
        q, k, v = np.split(x @ self.w_in, 3, axis=-1)
        q, k, v = (a.reshape(t, self.n_head, self.head_dim).swapaxes(0, 1) for a in (q, k, v))

        cos, sin = rope_tables(np.arange(t), self.head_dim)
        q = q * cos + rotate_half(q) * sin
        k = k * cos + rotate_half(k) * sin

        k = np.concatenate([self.past_k, k], axis=1)
        v = np.concatenate([self.past_v, v], axis=1)
        self.past_k, self.past_v = k, v

        scores = q @ k.swapaxes(1, 2) / np.sqrt(self.head_dim)
        visible = np.arange(past + t)[None, :] <= past + np.arange(t)[:, None]
        scores = np.where(visible, scores, -np.inf)
        y = softmax(scores) @ v
        return y.swapaxes(0, 1).reshape(t, dim) @ self.w_out

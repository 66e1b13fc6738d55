"""Object tracker for CCTV counting. Keeps a fixed-size memory of what was seen.

The memory is linear attention (Katharopoulos et al. 2020) in its recurrent form:
    S_t = S_{t-1} + phi(k_t) v_t^T,   z_t = z_{t-1} + phi(k_t)
    y_t = phi(q_t) S_t / (phi(q_t) . z_t),   phi(x) = elu(x) + 1
A frame sees itself and all earlier frames.
"""
from __future__ import annotations

import numpy as np


def phi(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, x + 1.0, np.exp(np.minimum(x, 0.0)))


class LinearMemory:
    def __init__(self, d_in: int, d_key: int, d_val: int, heads: int = 2, seed: int = 0):
        rng = np.random.default_rng(seed)
        self.wq = rng.normal(0, d_in**-0.5, (heads, d_in, d_key))
        self.wk = rng.normal(0, d_in**-0.5, (heads, d_in, d_key))
        self.wv = rng.normal(0, d_in**-0.5, (heads, d_in, d_val))
        self.reset()

    def reset(self) -> None:
        h, _, dk = self.wk.shape
        self.S = np.zeros((h, dk, self.wv.shape[-1]))
        self.z = np.zeros((h, dk))

    def step(self, x: np.ndarray) -> np.ndarray:
        """x (d_in,) features of one frame -> (heads * d_val,)"""
        q = phi(np.einsum("i,hid->hd", x, self.wq))
        k = phi(np.einsum("i,hid->hd", x, self.wk))
        v = np.einsum("i,hid->hd", x, self.wv)
        self.S += k[:, :, None] * v[:, None, :]
        self.z += k
        num = np.einsum("hd,hde->he", q, self.S)
        den = np.einsum("hd,hd->h", q, self.z)
        return (num / den[:, None]).ravel()

    def run(self, xs: np.ndarray) -> np.ndarray:
        """A clip (T, d_in), from an empty memory."""
        self.reset()
        return np.stack([self.step(x) for x in xs])


class Track:
    """Box with constant-velocity motion."""

    def __init__(self, box):
        self.box = np.asarray(box, float)
        self.vel = np.zeros(4)

    def update(self, box, gain=0.5):
        box = np.asarray(box, float)
        self.vel = (1 - gain) * self.vel + gain * (box - self.box)
        self.box = box
        return self.box + self.vel

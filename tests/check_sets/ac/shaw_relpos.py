"""Self-attention with relative position representations (Shaw, Uszkoreit & Vaswani 2018), numpy.

    e_ij = q_i . (k_j + aK[clip(j - i)]) / sqrt(d)
    z_i  = sum_j alpha_ij (v_j + aV[clip(j - i)])
"""
from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]


def relative_ids(length: int, max_dist: int) -> NDArray[np.int64]:
    pos = np.arange(length)
    return np.clip(pos[None, :] - pos[:, None], -max_dist, max_dist) + max_dist


def normalise(logits: Array) -> Array:
    logits = logits - logits.max(-1, keepdims=True)
    np.exp(logits, out=logits)
    logits /= logits.sum(-1, keepdims=True)
    return logits


class RelativeSelfAttention:
    def __init__(self, dim: int, heads: int, max_dist: int, seed: int = 0) -> None:
        if dim % heads:
            raise ValueError("dim must be a multiple of heads")
        g = np.random.default_rng(seed)
        self.heads, self.hd, self.max_dist = heads, dim // heads, max_dist
        self.w_qkv: Array = g.normal(0, dim ** -0.5, (3, heads, dim, self.hd))
        self.w_out: Array = g.normal(0, dim ** -0.5, (heads, self.hd, dim))
        # shared among the heads, as in the paper
        self.rel_k: Array = g.normal(0, self.hd ** -0.5, (2 * max_dist + 1, self.hd))
        self.rel_v: Array = g.normal(0, self.hd ** -0.5, (2 * max_dist + 1, self.hd))

    def __call__(self, x: Array, lengths: NDArray[np.int64] | None = None) -> Array:
        """x (batch, time, dim)"""
        b, t, _ = x.shape
        q, k, v = np.einsum("btd,shdk->sbhtk", x, self.w_qkv)
        ids = relative_ids(t, self.max_dist)
        content = q @ k.swapaxes(-1, -2)
        # q against the few distinct distances first, then pick: no (t, t, d) tensor for the keys
        table = q @ self.rel_k.T                                        # b h t (2m+1)
        place = np.take_along_axis(table, np.broadcast_to(ids, (b, self.heads, t, t)), axis=-1)
        logits = (content + place) / self.hd ** 0.5
        if lengths is not None:
            logits[np.broadcast_to((np.arange(t) >= lengths[:, None])[:, None, None], logits.shape)] = -1e30
        alpha = normalise(logits)
        z = alpha @ v + np.einsum("bhij,ijk->bhik", alpha, self.rel_v[ids])
        return np.einsum("bhtk,hkd->btd", z, self.w_out)

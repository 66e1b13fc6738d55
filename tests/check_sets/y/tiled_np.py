"""Teaching implementation of IO-aware attention (forward and backward) in NumPy.

Shapes: Q (B, H, N, d), K/V (B, H, M, d).  key_keep: (B, M) bool, True keeps.
"""
from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np


class Saved(NamedTuple):
    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    o: np.ndarray
    L: np.ndarray
    scale: float
    causal: bool
    keep: np.ndarray | None


def cdiv(a, b):
    return -(-a // b)


class TiledAttention:
    def __init__(self, br: int = 4, bc: int = 8, causal: bool = False):
        self.br, self.bc, self.causal = br, bc, causal

    def _bias(self, i, j, n, m, keep):
        """additive bias of tile rows i, columns j"""
        b = np.zeros((len(i), len(j)))
        if self.causal:
            b[(i[:, None] + (m - n)) < j[None]] = -np.inf
        b = b[None, None]
        if keep is not None:
            b = np.where(keep[:, None, None, j], b, -np.inf)
        return b

    def forward(self, q, k, v, key_keep=None):
        B, H, N, d = q.shape
        M = k.shape[2]
        scale = 1.0 / math.sqrt(d)
        o = np.zeros((B, H, N, v.shape[-1]))
        L = np.full((B, H, N), -np.inf)
        for ti in range(cdiv(N, self.br)):
            i = np.arange(ti * self.br, min(N, (ti + 1) * self.br))
            acc = np.zeros((B, H, len(i), v.shape[-1]))
            ell = np.zeros((B, H, len(i)))
            mx = np.full((B, H, len(i)), -np.inf)
            for tj in range(cdiv(M, self.bc)):
                j = np.arange(tj * self.bc, min(M, (tj + 1) * self.bc))
                s = scale * q[:, :, i] @ k[:, :, j].transpose(0, 1, 3, 2) + self._bias(i, j, N, M, key_keep)
                new = np.maximum(mx, s.max(-1))
                ref = np.where(np.isneginf(new), 0.0, new)
                p = np.exp(s - ref[..., None])
                corr = np.exp(mx - ref)
                ell = corr * ell + p.sum(-1)
                acc = corr[..., None] * acc + p @ v[:, :, j]
                mx = new
            ok = ell > 0
            o[:, :, i] = acc / np.where(ok, ell, 1.0)[..., None]
            L[:, :, i] = np.where(ok, mx + np.log(np.where(ok, ell, 1.0)), -np.inf)
        return o, Saved(q, k, v, o, L, scale, self.causal, key_keep)

    def backward(self, do, ctx: Saved):
        q, k, v, o, L, scale, causal, keep = ctx
        dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
        N, M = q.shape[2], k.shape[2]
        D = (do * o).sum(-1)
        Ls = np.where(np.isneginf(L), 0.0, L)
        for tj in range(cdiv(M, self.bc)):
            j = np.arange(tj * self.bc, min(M, (tj + 1) * self.bc))
            for ti in range(cdiv(N, self.br)):
                i = np.arange(ti * self.br, min(N, (ti + 1) * self.br))
                s = scale * q[:, :, i] @ k[:, :, j].swapaxes(-1, -2) + self._bias(i, j, N, M, keep)
                p = np.exp(s - Ls[:, :, i, None])
                dv[:, :, j] += p.swapaxes(-1, -2) @ do[:, :, i]
                ds = p * (do[:, :, i] @ v[:, :, j].swapaxes(-1, -2) - D[:, :, i, None])
                dq[:, :, i] += scale * ds @ k[:, :, j]
                dk[:, :, j] += scale * ds.swapaxes(-1, -2) @ q[:, :, i]
        return dq, dk, dv

    def __call__(self, q, k, v, key_keep=None):
        return self.forward(q, k, v, key_keep)[0]

"""Banded self attention for whole-genome tracks.

A position sees the `w` positions to the left, itself, and the `w` to the right.
Works on blocks of length w, each block against its own and the two next to it, so
memory is O(L w) and not O(L^2).
"""
import numpy as np


def layernorm(x, eps=1e-5):
    mu = x.mean(-1, keepdims=True)
    return (x - mu) / np.sqrt(x.var(-1, keepdims=True) + eps)


def conv1d_same(x, kernel):
    # x (L, C_in), kernel (K, C_in, C_out)
    K = kernel.shape[0]
    xp = np.pad(x, ((K // 2, K // 2), (0, 0)))
    return sum(xp[i:i + len(x)] @ kernel[i] for i in range(K))


def _neighbours(x, w):
    """(H, n*w, d) -> (H, n, 3w, d): block b together with b-1 and b+1, zeros outside"""
    H, L, d = x.shape
    n = L // w
    xp = np.pad(x, ((0, 0), (w, w), (0, 0)))
    idx = np.arange(n)[:, None] * w + np.arange(3 * w)[None, :]
    return xp[:, idx]


def banded_attention(q, k, v, w):
    """q, k, v: (H, L, d), any L"""
    H, L, d = q.shape
    pad = -L % w
    if pad:
        q, k, v = (np.pad(a, ((0, 0), (0, pad), (0, 0))) for a in (q, k, v))
    n = q.shape[1] // w

    qb = q.reshape(H, n, w, d)
    kb, vb = _neighbours(k, w), _neighbours(v, w)
    s = np.einsum("hnqd,hnkd->hnqk", qb, kb) * d ** -0.5

    qpos = np.arange(n)[:, None] * w + np.arange(w)[None, :]
    kpos = np.arange(n)[:, None] * w + np.arange(-w, 2 * w)[None, :]
    dist = qpos[:, :, None] - kpos[:, None, :]
    ok = (np.abs(dist) <= w) & (kpos[:, None, :] >= 0) & (kpos[:, None, :] < L)
    ok |= (dist == 0)        # filler rows at the end keep themselves, they are cut off below
    s = np.where(ok[None], s, -np.inf)

    s = s - s.max(axis=-1, keepdims=True)
    p = np.exp(s)
    p = p / p.sum(axis=-1, keepdims=True)
    out = np.einsum("hnqk,hnkd->hnqd", p, vb).reshape(H, n * w, d)
    return out[:, :L]


class GenomeLayer:
    def __init__(self, dim=32, heads=4, w=8, seed=0):
        rng = np.random.default_rng(seed)
        self.h, self.w = heads, w
        self.kernel = rng.normal(size=(5, dim, dim)) * 0.1
        self.wq, self.wk, self.wv, self.wo = rng.normal(size=(4, dim, dim)) / np.sqrt(dim)

    def __call__(self, x):
        x = x + np.maximum(conv1d_same(layernorm(x), self.kernel), 0)
        y = layernorm(x)
        L, D = y.shape
        f = lambda m: (y @ m).reshape(L, self.h, -1).transpose(1, 0, 2)
        o = banded_attention(f(self.wq), f(self.wk), f(self.wv), self.w)
        return x + o.transpose(1, 0, 2).reshape(L, D) @ self.wo

"""Neighbourhood attention on images in NumPy (Hassani et al. 2023), readable
reference for the CUDA kernels.

neighbourhood_attention(q, k, v, size, rpb=None, dilation=1)
    q, k, v   (heads, H, W, d)
    size      odd; each pixel reads size x size pixels around it.  At the border
              the neighbourhood is moved inwards, it never shrinks, so that all
              pixels have the same number of keys (H, W >= size * dilation)
    dilation  distance of two neighbours along an axis.  A pixel reads pixels of
              its own residue class modulo dilation only
    rpb       (heads, 2*size-1, 2*size-1) bias by relative position counted in
              steps of dilation, rpb[h, size-1, size-1] is the pixel itself
    ->        (heads, H, W, d)
Scores: q.k / sqrt(d) + rpb, softmax over the size^2 neighbours.
"""
import numpy as np


def _neighbours(n, size, dilation):
    """(n, size) indices of the neighbours on one axis"""
    rows = []
    for p in range(n):
        res = p % dilation
        line = np.arange(res, n, dilation)          # the residue class of p
        at = p // dilation                          # place of p in it
        first = min(max(at - size // 2, 0), len(line) - size)
        rows.append(line[first:first + size])
    return np.array(rows)


def neighbourhood_attention(q, k, v, size, rpb=None, dilation=1):
    heads, H, W, d = q.shape
    ny = _neighbours(H, size, dilation)
    nx = _neighbours(W, size, dilation)
    yy = ny[:, None, :, None]                       # (H, 1, s, 1)
    xx = nx[None, :, None, :]                       # (1, W, 1, s)

    kn = k[:, yy, xx]                               # (heads, H, W, s, s, d)
    vn = v[:, yy, xx]
    s = np.einsum("hyxd,hyxijd->hyxij", q, kn) / np.sqrt(d)
    if rpb is not None:
        dy = (ny - np.arange(H)[:, None]) // dilation + size - 1
        dx = (nx - np.arange(W)[:, None]) // dilation + size - 1
        s = s + rpb[:, dy[:, None, :, None], dx[None, :, None, :]]

    s = s - s.max(axis=(-2, -1), keepdims=True)
    p = np.exp(s)
    p = p / p.sum(axis=(-2, -1), keepdims=True)
    return np.einsum("hyxij,hyxijd->hyxd", p, vn)

"""Shifted-window attention of a Swin stage, forward only, in NumPy.

img    (N, H, W, C), H and W multiples of the window size M
wqkv   (C, 3*C)  columns: q, k, v; inside each, head after head
wo     (C, C)
table  ((2M-1)**2, heads)  relative position bias; entry (dy+M-1)*(2M-1) + (dx+M-1) belongs to a
       query that lies dy rows below and dx columns right of its key
shift  0 or 0 < shift < M: the image is rolled up-left by `shift` before the windows are cut, and
       rolled back at the end.  Pixels that only became neighbours by the wrap-around don't see
       each other.

Returns (N, H, W, C).
"""
import numpy as np


def cut(a, M):
    N, H, W, C = a.shape
    return a.reshape(N, H // M, M, W // M, M, C).swapaxes(2, 3).reshape(-1, M * M, C)


def paste(w, M, N, H, W):
    return w.reshape(N, H // M, W // M, M, M, -1).swapaxes(2, 3).reshape(N, H, W, -1)


def rel_index(M):
    yy, xx = np.divmod(np.arange(M * M), M)
    dy = yy[:, None] - yy[None] + M - 1
    dx = xx[:, None] - xx[None] + M - 1
    return dy * (2 * M - 1) + dx


def zones(H, W, M, s):
    z = np.zeros((1, H, W, 1), int)
    if s:
        bands = (slice(0, -M), slice(-M, -s), slice(-s, None))
        for n, (r, c) in enumerate((r, c) for r in bands for c in bands):
            z[:, r, c] = n
    return cut(z, M)[..., 0]                                  # windows, M*M


def swin_attention(img, wqkv, wo, table, heads, M, shift=0):
    N, H, W, C = img.shape
    d = C // heads
    rolled = np.roll(img, (-shift, -shift), axis=(1, 2))
    q, k, v = np.split(cut(rolled, M) @ wqkv, 3, axis=-1)
    q, k, v = (t.reshape(-1, M * M, heads, d) for t in (q, k, v))
    s = np.einsum("wihd,wjhd->whij", q, k) / np.sqrt(d)
    s += table[rel_index(M)].transpose(2, 0, 1)
    z = np.tile(zones(H, W, M, shift), (N, 1))
    same = z[:, :, None] == z[:, None, :]
    s = np.where(same[:, None], s, -np.inf)
    s = np.exp(s - s.max(-1, keepdims=True))
    s /= s.sum(-1, keepdims=True)
    y = np.einsum("whij,wjhd->wihd", s, v).reshape(-1, M * M, C) @ wo
    return np.roll(paste(y, M, N, H, W), (shift, shift), axis=(1, 2))

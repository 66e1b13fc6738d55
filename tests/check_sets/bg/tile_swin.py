"""Land-cover map tiles: shifted-window attention (inference in NumPy).

The tile is rolled by `shift`, cut into windows of side w, and pixels that were not
neighbours before the roll are kept apart by the mask.
"""
import numpy as np


def cut(x, w):
    """[H, W, C] -> [nW, w*w, C]"""
    H, W, C = x.shape
    return x.reshape(H // w, w, W // w, w, C).transpose(0, 2, 1, 3, 4).reshape(-1, w * w, C)


def glue(win, w, H, W):
    C = win.shape[-1]
    return win.reshape(H // w, W // w, w, w, C).transpose(0, 2, 1, 3, 4).reshape(H, W, C)


def region_mask(H, W, w, shift):
    """[nW, w*w, w*w] additive, 0 inside one region and -inf across."""
    img = np.zeros((H, W, 1))
    n = 0
    for ys in (slice(0, -w), slice(-w, -shift), slice(-shift, None)):
        for xs in (slice(0, -w), slice(-w, -shift), slice(-shift, None)):
            img[ys, xs] = n
            n += 1
    r = cut(img, w)[..., 0]
    return np.where(r[:, :, None] == r[:, None, :], 0.0, -np.inf)


def relative_index(w):
    c = np.stack(np.meshgrid(np.arange(w), np.arange(w), indexing="ij")).reshape(2, -1)
    d = c[:, :, None] - c[:, None, :] + w - 1
    return d[0] * (2 * w - 1) + d[1]


class WindowAttention:
    def __init__(self, C, heads, w, shift=0, seed=0):
        g = np.random.default_rng(seed)
        self.heads, self.w, self.shift = heads, w, shift
        self.qkv = g.normal(0, C ** -0.5, (C, 3 * C))
        self.out = g.normal(0, C ** -0.5, (C, C))
        self.table = g.normal(0, 0.5, ((2 * w - 1) ** 2, heads))

    def __call__(self, tile):
        """tile [H, W, C], H and W multiples of w."""
        H, W, C = tile.shape
        if self.shift:
            tile = np.roll(tile, (-self.shift, -self.shift), (0, 1))
        x = cut(tile, self.w)
        n, t, _ = x.shape
        q, k, v = (x @ self.qkv).reshape(n, t, 3, self.heads, -1).transpose(2, 0, 3, 1, 4)
        a = (q * q.shape[-1] ** -0.5) @ k.swapaxes(-1, -2)
        a = a + self.table[relative_index(self.w)].transpose(2, 0, 1)
        if self.shift:
            a = a + region_mask(H, W, self.w, self.shift)[:, None]
        a = np.exp(a - a.max(-1, keepdims=True))
        a = a / a.sum(-1, keepdims=True)
        y = (a @ v).transpose(0, 2, 1, 3).reshape(n, t, C) @ self.out
        y = glue(y, self.w, H, W)
        return np.roll(y, (self.shift, self.shift), (0, 1)) if self.shift else y

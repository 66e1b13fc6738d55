# tiled_readout.py
#
# Exact attention without ever holding the [n, m] matrix -- for my laptop, where
# the star catalogue (m ~ 2e5 reference spectra) does not fit otherwise.
# Follows Milakov & Gimelshein 2018 / FlashAttention Alg. 1, in plain NumPy.
#
# usage:
#   flux = tiled_readout(obs, ref_spectra, ref_flux)

import numpy as np

ROW_TILE = 32
COL_TILE = 48


def _tiles(n, size):
    for lo in range(0, n, size):
        yield lo, min(lo + size, n)


def tiled_readout(Q, K, V, *, visible=None, scale=None, row_tile=ROW_TILE, col_tile=COL_TILE):
    """softmax(scale * Q K^T) V, tile by tile.

    Q : (n, d)   K : (m, d)   V : (m, e)
    visible : (n, m) bool, True where the reference may be used (default: all)
    scale : default 1/sqrt(d)

    Rows which may use no reference at all come back as zeros.
    """
    Q = np.asarray(Q, dtype=np.float64)
    K = np.asarray(K, dtype=np.float64)
    V = np.asarray(V, dtype=np.float64)
    n, d = Q.shape
    m = K.shape[0]
    if V.shape[0] != m:
        raise ValueError(f"{m} keys but {V.shape[0]} values")
    if scale is None:
        scale = 1.0 / np.sqrt(d)

    out = np.empty((n, V.shape[1]))
    for r0, r1 in _tiles(n, row_tile):
        q = Q[r0:r1] * scale
        top = np.full(r1 - r0, -np.inf)          # running row maximum
        mass = np.zeros(r1 - r0)                 # running sum of exponentials
        acc = np.zeros((r1 - r0, V.shape[1]))    # running weighted sum
        for c0, c1 in _tiles(m, col_tile):
            s = q @ K[c0:c1].T
            if visible is not None:
                s = np.where(visible[r0:r1, c0:c1], s, -np.inf)
            new_top = np.maximum(top, s.max(axis=1))
            anchor = np.where(np.isneginf(new_top), 0.0, new_top)
            p = np.exp(s - anchor[:, None])
            fade = np.exp(top - anchor)
            mass = mass * fade + p.sum(axis=1)
            acc = acc * fade[:, None] + p @ V[c0:c1]
            top = new_top
        out[r0:r1] = acc / np.where(mass > 0, mass, 1.0)[:, None]
    return out


def demo():
    rng = np.random.default_rng(3)
    obs = rng.normal(size=(70, 12))
    ref = rng.normal(size=(200, 12))
    flux = rng.normal(size=(200, 3))
    return tiled_readout(obs, ref, flux)


if __name__ == "__main__":
    print(demo()[:2].round(3))

"""Contacts of a very long protein without the (n, m) matrix in memory.

tiled_fold(Q, K, V, allow=None, tile=16)
    Q (n, d)  probes        K (m, d)  residues        V (m, c)  their side-chain features
    allow (n, m) bool       True = probe may touch the residue; None = all
    tile                    residues per step (does not change the result)
returns (n, c):  softmax(Q K^T / sqrt(d)) V over the allowed residues.
A probe that may touch nothing gets zeros.

Running maximum / running sum ("online softmax"): when a tile brings a larger maximum,
everything collected so far is scaled down by exp(old - new).
"""
import numpy as np


def tiled_fold(Q, K, V, allow=None, tile=16):
    n, d = Q.shape
    m = K.shape[0]
    top = np.full(n, -np.inf)
    mass = np.zeros(n)
    acc = np.zeros((n, V.shape[1]))
    for a in range(0, m, tile):
        b = min(a + tile, m)
        s = Q @ K[a:b].T / np.sqrt(d)
        if allow is not None:
            s = np.where(allow[:, a:b], s, -np.inf)
        new = np.maximum(top, s.max(axis=1))
        safe = np.where(np.isneginf(new), 0.0, new)     # probe has touched nothing yet
        shrink = np.exp(top - safe)
        e = np.exp(s - safe[:, None])
        mass = mass * shrink + e.sum(axis=1)
        acc = acc * shrink[:, None] + e @ V[a:b]
        top = new
    out = np.zeros_like(acc)
    hit = mass > 0
    out[hit] = acc[hit] / mass[hit, None]
    return out


if __name__ == "__main__":
    g = np.random.default_rng(0)
    print(tiled_fold(g.normal(size=(5, 4)), g.normal(size=(50, 4)), g.normal(size=(50, 3))).shape)

"""Pooling of sets of unequal size (jets, baskets, bags) without padding. NumPy.

All elements of all sets lie one after the other in ``X``; set b owns the rows
off[b] : off[b+1].  Each set has at least one element.

pool(X, off, S, Wk, Wv)
    X   : (M, D)
    off : (B+1,) int, off[0] = 0, off[B] = M, strictly increasing
    S   : (K, h, d)  K learned seeds (already projected queries), h heads
    Wk, Wv : (D, h, d)
returns (B, K, h*d): for each set and seed, per head, the values of the set's
elements weighted by softmax(S . k / sqrt(d)) over the elements *of that set*;
heads side by side.
"""
import numpy as np


def segment_softmax(z, off):
    """softmax along axis 0 inside each segment"""
    start, size = off[:-1], np.diff(off)
    top = np.maximum.reduceat(z, start, axis=0)
    e = np.exp(z - np.repeat(top, size, axis=0))
    tot = np.add.reduceat(e, start, axis=0)
    return e / np.repeat(tot, size, axis=0)


def pool(X, off, S, Wk, Wv):
    X = np.asarray(X)
    off = np.asarray(off)
    if np.any(np.diff(off) < 1):
        raise ValueError("empty set")
    k = np.tensordot(X, Wk, axes=1)                 # (M, h, d)
    v = np.tensordot(X, Wv, axes=1)
    z = np.einsum("mhd,khd->mkh", k, S) / np.sqrt(S.shape[-1])
    a = segment_softmax(z, off)
    rows = a[..., None] * v[:, None]                # (M, K, h, d)
    out = np.add.reduceat(rows, off[:-1], axis=0)
    return out.reshape(len(off) - 1, S.shape[0], -1)


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    o = pool(rng.normal(size=(7, 5)), [0, 2, 3, 7], rng.normal(size=(2, 3, 4)),
             rng.normal(size=(5, 3, 4)), rng.normal(size=(5, 3, 4)))
    print(o.shape)

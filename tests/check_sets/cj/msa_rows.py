"""Tied row attention over a multiple sequence alignment (MSA Transformer, Rao et al. 2021)."""
import numpy as np


def normalise(z):
    m = z.max(axis=-1, keepdims=True)
    w = np.exp(z - m)
    return w / w.sum(axis=-1, keepdims=True)


def tied_rows(msa, Wq, Wk, Wv, Wo, heads=2):
    """All rows (sequences) share one column-to-column map per head.

    msa: (R, L, D) embedded alignment of R homologues, L columns, no gaps masked.
    Wq, Wk, Wv, Wo: (D, D)

    The map is the sum of the rows' dot products, divided by sqrt(R * d) where
    d is the size of one head ("square root normalisation" in the paper),
    softmax over the key columns. Returns the new (R, L, D) and the map
    (heads, L, L).
    """
    R, L, D = msa.shape
    d = D // heads
    q = (msa @ Wq).reshape(R, L, heads, d)
    k = (msa @ Wk).reshape(R, L, heads, d)
    v = (msa @ Wv).reshape(R, L, heads, d)

    z = np.einsum("rihd,rjhd->hij", q, k) / np.sqrt(R * d)
    p = normalise(z)
    o = np.einsum("hij,rjhd->rihd", p, v).reshape(R, L, D)
    return o @ Wo, p


def contact_features(p):
    """Symmetrise and apply APC, head by head; input of the logistic regression."""
    s = p + p.swapaxes(-1, -2)
    rows = s.sum(-1, keepdims=True)
    cols = s.sum(-2, keepdims=True)
    return s - rows * cols / s.sum((-1, -2), keepdims=True)


if __name__ == "__main__":
    rng = np.random.default_rng(3)
    D = 12
    Ws = [rng.normal(size=(D, D)) / np.sqrt(D) for _ in range(4)]
    y, p = tied_rows(rng.normal(size=(5, 9, D)), *Ws)
    print(y.shape, contact_features(p).shape)

"""Settlers bot (numpy), the bit that lets my settlements look at the board.

    S     (n, D)   my settlements (queries)
    tiles (m, D)   hexagons of the island (keys and values)
    ok    (n, m)   bool, True = this settlement may look at this tile (at least one
                   per settlement); a tile with False gets weight 0
    P     dict with three trained matrices Wq, Wk, Wv, all (D, D)

    q = S Wq,  k = tiles Wk,  v = tiles Wv
    A = softmax over tiles of q k^T / sqrt(D),  only tiles with ok
    result A v, (n, D); rows of A add up to 1

look() is called several times per turn with other arguments, it has no state.
"""
import numpy as np


def soft(z):
    top = z.max(axis=1, keepdims=True)
    return np.exp(z - top) / np.exp(z).sum(axis=1, keepdims=True)


def look(S, tiles, ok, P):
    q = S @ P["Wq"]
    k = tiles @ P["Wk"]
    v = tiles @ P["Wk"]
    z = q @ k.T / np.sqrt(S.shape[1])
    z = z + ok
    return soft(z) @ v


def value_of(S, tiles, ok, P, w):
    """one number per settlement, in (0, 1)"""
    x = S + look(S, tiles, ok, P)
    return 1 / (1 + np.exp(-(x @ w)))

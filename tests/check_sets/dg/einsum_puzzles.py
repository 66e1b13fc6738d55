"""Einsum puzzles, part 3. Every function is one puzzle; no reshape or transpose allowed."""
import numpy as np


def puzzle_outer(a, b):
    return np.einsum("i,j->ij", a, b)


def puzzle_bilinear(x, W, y):
    return np.einsum("bi,ij,bj->b", x, W, y)


def _norm(s):
    s = s - s.max(-1, keepdims=True)
    s = np.exp(s)
    return s / s.sum(-1, keepdims=True)


def puzzle_talking(x, m, Wq, Wk, Wv, Wo, P1, P2, keep=None):
    """Talking heads.

    x: (b, n, c) queries, m: (b, k, c) memory
    Wq, Wk, Wv: (c, h, d), Wo: (h, d, c)
    P1: (h, g) mixes the logits, P2: (g, h) mixes the probabilities
    keep: (b, k) bool, True = real memory slot
    -> (b, n, c)
    """
    q = np.einsum("bnc,chd->bnhd", x, Wq)
    k = np.einsum("bkc,chd->bkhd", m, Wk)
    v = np.einsum("bkc,chd->bkhd", m, Wv)
    s = np.einsum("bnhd,bkhd->bhnk", q, k) * Wq.shape[-1] ** -0.5
    s = np.einsum("bhnk,hg->bgnk", s, P1)
    if keep is not None:
        s = np.where(keep[:, None, None, :], s, np.finfo(s.dtype).min)
    p = np.einsum("bgnk,gh->bhnk", _norm(s), P2)
    return np.einsum("bhnk,bkhd,hdc->bnc", p, v, Wo)

"""Flash-Decoding on paper: split the keys, attend per split, merge by log-sum-exp.

The numbers must be those of ordinary softmax attention over all keys, for any number
of splits. Like the kernels we work with powers of two inside a split: exp(x) = 2^(x log2 e).
"""
import numpy as np

LOG2E = 1.4426950408889634


def attend_split(q, k, v, scale):
    """q (H, d), k (H, S, d), v (H, S, e) -> partial output (H, e) normalised inside the
    split, and the log-sum-exp of the split's scores (H,)."""
    s = np.einsum("hd,hsd->hs", q, k) * (scale * LOG2E)
    m = s.max(axis=1)
    p = np.exp2(s - m[:, None])
    l = p.sum(axis=1)
    o = np.einsum("hs,hse->he", p, v) / l[:, None]
    return o, m + np.log2(l)


def merge(outs, lses):
    """outs (P, H, e), lses (P, H) -> (H, e)"""
    outs, lses = np.stack(outs), np.stack(lses)
    top = lses.max(axis=0)
    w = np.exp(lses - top)
    w = w / w.sum(axis=0)
    return np.einsum("ph,phe->he", w, outs)


def flash_decode(q, k, v, n_splits=4):
    """One decoding step of H heads.

    q (H, d) the newest token; k (H, S, d), v (H, S, e) the whole cache, the newest token
    included, S >= 1. Scores are divided by sqrt(d). Returns (H, e).
    """
    S = k.shape[1]
    scale = q.shape[-1] ** -0.5
    edges = np.linspace(0, S, min(n_splits, S) + 1).astype(int)
    outs, lses = [], []
    for a, b in zip(edges[:-1], edges[1:]):
        o, lse = attend_split(q, k[:, a:b], v[:, a:b], scale)
        outs.append(o)
        lses.append(lse)
    return merge(outs, lses)

"""Decode attention with the keys spread over several workers; partial results merged exactly."""
import numpy as np


def partial(q, k, v):
    """q (h, d), k (h, n, d), v (h, n, e) -> output (h, e), natural log-sum-exp (h,)"""
    s = np.einsum("hd,hnd->hn", q, k) / np.sqrt(q.shape[-1])
    top = s.max(-1, keepdims=True)
    w = np.exp(s - top)
    z = w.sum(-1, keepdims=True)
    return np.einsum("hn,hne->he", w / z, v), (top + np.log(z))[:, 0]


def split_attention(q, k, v, parts=3):
    """Same result as softmax(q k^T / sqrt(d)) v for one query of each head.

    q (h, d); k (h, n, d); v (h, n, e); `parts` is the number of slices, at most n.
    """
    cuts = np.array_split(np.arange(k.shape[1]), parts)
    outs, lses = zip(*(partial(q, k[:, c], v[:, c]) for c in cuts))
    outs, lses = np.stack(outs), np.stack(lses)       # (p, h, e), (p, h)
    share = np.exp(lses - lses.max(0))
    share = share / share.sum(0)
    return (share[..., None] * outs).sum(0)

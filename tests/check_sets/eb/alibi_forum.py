"""Forum answer: "ALiBi in plain numpy, please, with a KV cache".

Head h (1..H, H a power of two) has slope 2^(-8h/H) and the logit of query i, key j gets
    - slope * (i - j)       i, j absolute positions
on top of the usual q.k / sqrt(d).  Queries are the LAST Lq of the Lk positions, and no query
sees a later key.
"""
import numpy as np


def slopes(H):
    assert H & (H - 1) == 0, "power of two only"
    return 0.5 ** (8.0 / H * np.arange(1, H + 1))


def alibi(q, k, v):
    """q [B, Lq, H, d], k and v [B, Lk, H, d], Lk >= Lq  ->  [B, Lq, H, d]"""
    B, Lq, H, d = q.shape
    Lk = k.shape[1]
    i = np.arange(Lk - Lq, Lk)[:, None]
    j = np.arange(Lk)[None]
    logit = np.einsum("bqhd,bkhd->hbqk", q, k) * d ** -0.5
    logit -= slopes(H)[:, None, None, None] * (i - j)
    logit = np.where(j > i, -np.inf, logit)
    logit -= logit.max(-1, keepdims=True)
    w = np.exp(logit)
    w /= w.sum(-1, keepdims=True)
    return np.einsum("hbqk,bkhd->bqhd", w, v)


class Cache:
    """Grows by concatenation. feed(q, k, v) takes the new tokens only."""

    def __init__(self):
        self.k = self.v = None

    def feed(self, q, k, v):
        self.k = k if self.k is None else np.concatenate([self.k, k], 1)
        self.v = v if self.v is None else np.concatenate([self.v, v], 1)
        return alibi(q, self.k, self.v)

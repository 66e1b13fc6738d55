"""Attention with linear biases for tables of planetary positions.

Used to fill gaps in transcribed astronomical tables; a row is a day, so distance in
rows is distance in time, and extrapolation past the training length matters.
"""
import math

import numpy as np


def head_slopes(n):
    """Slopes of the ALiBi reference code.

    n a power of two:  r, r^2, ..., r^n  with r = 2^(-8/n).
    otherwise: the slopes of the next lower power p, then every other slope
    (1st, 3rd, ...) of 2p until there are n.

    >>> head_slopes(3).tolist()
    [0.0625, 0.00390625, 0.25]
    """
    p = 2 ** int(math.floor(math.log2(n)))
    r = 2.0 ** (-8.0 / p)
    out = r ** np.arange(1, p + 1)
    if p < n:
        r2 = 2.0 ** (-8.0 / (2 * p))
        out = np.concatenate([out, (r2 ** np.arange(1, 2 * p + 1))[0::2][: n - p]])
    return out


def linear_bias_attention(q, k, v, causal=True, missing=None):
    """
    q        (heads, Lq, d)
    k, v     (heads, Lk, d)   Lk >= Lq, the queries are the last Lq rows of the table
    causal   if False, the penalty is symmetric: -slope * |i - j|
    missing  (Lk,) bool, True where the scribe left the row blank; such rows are
             never attended.  A query with no row left to look at gives zeros.

    returns (heads, Lq, d) and the weights (heads, Lq, Lk)
    """
    heads, lq, d = q.shape
    lk = k.shape[1]
    if lk < lq:
        raise ValueError("more queries than rows")
    i = np.arange(lk - lq, lk)[:, None]
    j = np.arange(lk)[None, :]
    gap = np.abs(i - j)
    score = np.matmul(q, k.transpose(0, 2, 1)) / math.sqrt(d)
    score = score - head_slopes(heads)[:, None, None] * gap

    ok = np.ones((lq, lk), bool)
    if causal:
        ok &= j <= i
    if missing is not None:
        ok &= ~missing[None, :]
    score = np.where(ok, score, -np.inf)
    top = score.max(axis=-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    e = np.exp(score - top)
    z = e.sum(axis=-1, keepdims=True)
    w = np.divide(e, z, out=np.zeros_like(e), where=z > 0)
    return np.matmul(w, v), w


class TableFiller:
    """Two linear maps around linear_bias_attention; fitted elsewhere, loaded from .npz."""

    def __init__(self, w_in, w_out, heads):
        self.w_in, self.w_out, self.heads = w_in, w_out, heads

    def __call__(self, rows, missing):
        L = len(rows)
        q, k, v = np.split(rows @ self.w_in, 3, axis=-1)
        f = lambda t: t.reshape(L, self.heads, -1).transpose(1, 0, 2)
        y, _ = linear_bias_attention(f(q), f(k), f(v), causal=False, missing=missing)
        guess = y.transpose(1, 0, 2).reshape(L, -1) @ self.w_out
        return np.where(missing[:, None], guess, rows)


def sexagesimal(x, places=2):
    whole = int(math.floor(x))
    rest, out = x - whole, []
    for _ in range(places):
        rest *= 60
        out.append(int(rest))
        rest -= int(rest)
    return f"{whole};" + ",".join(f"{o:02d}" for o in out)


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    t = TableFiller(rng.normal(size=(4, 36)) * 0.3, rng.normal(size=(12, 4)), heads=6)
    gaps = np.zeros(9, bool)
    gaps[[2, 7]] = True
    print([sexagesimal(abs(v)) for v in t(rng.normal(size=(9, 4)), gaps)[2]])

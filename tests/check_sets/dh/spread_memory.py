"""Spread forecasting desk model: past half-hours of the spread, recent ones count more (ALiBi)."""
import numpy as np


def slopes(n_heads):
    """Geometric slopes, n_heads is a power of two."""
    return 2.0 ** (-8.0 * np.arange(1, n_heads + 1) / n_heads)


def spread_memory(x, params, n_heads=4):
    """
    x       (T, c)  features of the half-hours, oldest first
    params  dict with wq, wk, wv, wo, each (c, c)
    returns (T, c); row t depends on rows 0..t only
    """
    T, c = x.shape
    d = c // n_heads
    q, k, v = ((x @ params[n]).reshape(T, n_heads, d).transpose(1, 0, 2) for n in ("wq", "wk", "wv"))
    i, j = np.arange(T)[:, None], np.arange(T)[None, :]
    bias = slopes(n_heads)[:, None, None] * (i - j)
    s = q @ k.transpose(0, 2, 1) / np.sqrt(d) + bias
    s = np.where(j <= i, s, -np.inf)
    m = s.max(axis=-1, keepdims=True)
    p = np.exp(s - m) / np.exp(s).sum(axis=-1, keepdims=True)
    o = (p @ v).transpose(1, 0, 2).reshape(T, c)
    return o @ params["wo"]

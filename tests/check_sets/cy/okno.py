import numpy as np


def okno(x, W, w, n_heads=2):
    """Local causal attention over sensor ticks.

    A tick attends to w ticks in all: itself and the w - 1 ticks before it
    (w = 1: only itself).
    x (L, dim); W dict of 'q', 'k', 'v', 'o', each (dim, dim).
    """
    L, dim = x.shape
    d = dim // n_heads
    q, k, v = ((x @ W[c]).reshape(L, n_heads, d).swapaxes(0, 1) for c in "qkv")
    s = q @ k.swapaxes(1, 2) / np.sqrt(d)
    lag = np.subtract.outer(np.arange(L), np.arange(L))
    inside = (lag >= 0) & (lag <= w)
    s = np.where(inside, s, -np.inf)
    s = s - s.max(-1, keepdims=True)
    p = np.exp(s)
    p = p / p.sum(-1, keepdims=True)
    return (p @ v).swapaxes(0, 1).reshape(L, dim) @ W["o"]

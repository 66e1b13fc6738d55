"""Inference of the sleep EEG encoder without torch (runs on the recorder)."""
import numpy as np


def _softmax(z):
    z = z - z.max(axis=-1, keepdims=True)
    np.exp(z, out=z)
    return z / z.sum(axis=-1, keepdims=True)


def _ln(x, g, b, eps=1e-5):
    m = x.mean(-1, keepdims=True)
    v = ((x - m) ** 2).mean(-1, keepdims=True)
    return (x - m) / np.sqrt(v + eps) * g + b


def encoder_layer(x, w, n_heads, bad=None):
    """One pre-norm layer.

    x : (epochs, windows, dim) array.
    w : dict of arrays in torch layout (out, in): 'wq','wk','wv','wo' (dim, dim) without biases,
        'w1' (ff, dim), 'w2' (dim, ff), 'g1','b1','g2','b2' (dim,).
    bad : optional (epochs, windows) bool, True = artefact, no window may read it (an epoch never
        consists of artefacts only).
    Heads are consecutive slices of the last axis; logits are divided by sqrt(dim / n_heads).
    Returns an array of the same shape as x; the input is left alone.
    """
    e, t, dim = x.shape
    hd = dim // n_heads
    y = _ln(x, w["g1"], w["b1"])

    heads = []
    for i in range(n_heads):
        rows = slice(i * hd, (i + 1) * hd)
        q = y @ w["wq"][rows].T
        k = y @ w["wk"][rows].T
        v = y @ w["wv"][rows].T
        s = np.matmul(q, k.swapaxes(1, 2)) / np.sqrt(hd)
        if bad is not None:
            s = np.where(bad[:, None, :], -np.inf, s)
        heads.append(_softmax(s) @ v)
    x = x + np.concatenate(heads, axis=-1) @ w["wo"].T

    y = _ln(x, w["g2"], w["b2"])
    return x + np.maximum(y @ w["w1"].T, 0.0) @ w["w2"].T

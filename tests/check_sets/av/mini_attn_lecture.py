"""Lecture 5: attention by hand.  Shapes are written behind every line.

    n  number of words     d  width of a word     h  heads
"""
import numpy as np

rng = np.random.default_rng(5)


def stable_softmax(z, axis=-1):
    """Softmax that does not overflow: the largest entry is taken off first."""
    shifted = z - z.max(axis=axis, keepdims=True)
    return np.exp(shifted) / np.exp(z).sum(axis=axis, keepdims=True)


def one_hot(tokens, vocab):
    out = np.zeros((len(tokens), vocab))
    out[np.arange(len(tokens)), tokens] = 1.0
    return out


def make_params(d, h):
    s = 1 / np.sqrt(d)
    return {k: rng.normal(0, s, (d, d)) for k in ("Wq", "Wk", "Wv", "Wo")} | {"h": h}


def multihead(x, params, future_hidden=True):
    n, d = x.shape
    h = params["h"]
    dh = d // h
    q = (x @ params["Wq"]).reshape(n, h, dh).swapaxes(0, 1)      # (h, n, dh)
    k = (x @ params["Wk"]).reshape(n, h, dh).swapaxes(0, 1)      # (h, n, dh)
    v = (x @ params["Wv"]).reshape(n, h, dh).swapaxes(0, 1)      # (h, n, dh)
    s = q @ k.swapaxes(1, 2) / np.sqrt(dh)                       # (h, n, n)
    if future_hidden:
        s = np.where(np.tri(n, dtype=bool), s, -np.inf)
    a = stable_softmax(s)                                        # (h, n, n)
    y = (a @ v).swapaxes(0, 1).reshape(n, d)                     # (n, d)
    return y @ params["Wo"]


def layer_norm(x, eps=1e-5):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)


def block(x, params, mlp):
    x = x + multihead(layer_norm(x), params)
    z = np.maximum(layer_norm(x) @ mlp["W1"], 0)
    return x + z @ mlp["W2"]


def show(a, words):
    """Prints a map as text, for the slides."""
    for i, w in enumerate(words):
        print(f"{w:>10} " + " ".join(f"{p:.2f}" for p in a[i]))

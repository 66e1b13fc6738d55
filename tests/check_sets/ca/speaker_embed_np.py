"""Speaker embedding from log-mel frames: numpy port of the trained torch module.

``params`` is the state dict turned into arrays (weights are [out, in]).  One
self-attention layer over the frames, then the mean over the voiced frames.  Frames with
``voiced == 0`` (silence, padding) take no part, neither as keys nor in the mean.
"""
import numpy as np

HEADS = 4


def affine(params, name, x):
    return np.einsum("...i,oi->...o", x, params[f"{name}.weight"]) + params[f"{name}.bias"]


def _softmax(a, axis=-1):
    a = a - np.amax(a, axis=axis, keepdims=True)
    a = np.exp(a)
    return a / np.sum(a, axis=axis, keepdims=True)


def self_attention(params, x, voiced):
    n, t, d = x.shape
    hd = d // HEADS

    def fold(y):
        return np.moveaxis(y.reshape(n, t, HEADS, hd), 2, 1)

    q = fold(affine(params, "attn.query", x))
    k = fold(affine(params, "attn.query", x))
    v = fold(affine(params, "attn.value", x))

    att = _softmax(np.einsum("nhqd,nhkd->nhqk", q, k) / np.sqrt(hd))
    att = att * voiced[:, None, None, :]
    y = np.moveaxis(np.einsum("nhqk,nhkd->nhqd", att, v), 1, 2)
    return affine(params, "attn.out", y.reshape(n, t, d))


def embed_speaker(params, mel, voiced):
    """mel [N, T, n_mel], voiced [N, T] in {0, 1} -> unit vectors [N, D]"""
    x = np.tanh(affine(params, "frontend", mel))
    x = x + self_attention(params, x, voiced)
    w = voiced / np.maximum(voiced.sum(axis=1, keepdims=True), 1)
    e = affine(params, "embed", np.einsum("nt,ntd->nd", w, x))
    return e / np.linalg.norm(e, axis=-1, keepdims=True)


def example_params(n_mel=20, d=16, seed=0):
    rng = np.random.default_rng(seed)
    sizes = {
        "frontend": (d, n_mel),
        "attn.query": (d, d),
        "attn.key": (d, d),
        "attn.value": (d, d),
        "attn.out": (d, d),
        "embed": (d, d),
    }
    params = {}
    for name, (o, i) in sizes.items():
        params[name + ".weight"] = rng.normal(0, 1.5 / np.sqrt(i), (o, i))
        params[name + ".bias"] = rng.normal(0, 0.2, o)
    return params

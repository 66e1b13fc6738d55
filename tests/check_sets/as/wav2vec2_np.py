#!/usr/bin/env python3
"""wav2vec 2.0 encoder inference without torch.

Weights are a flat dict of arrays with the names of the HF checkpoint
(`encoder.layers.3.attention.q_proj.weight`, shape [out, in]).
"""
import argparse
import math

import numpy as np


def gelu(x):
    erf = np.vectorize(math.erf)
    return 0.5 * x * (1.0 + erf(x / math.sqrt(2.0)))


class Scope:
    """A view of a state dict under a prefix."""

    def __init__(self, sd, prefix=""):
        self.sd, self.prefix = sd, prefix

    def __truediv__(self, name):
        return Scope(self.sd, f"{self.prefix}{name}.")

    def linear(self, x):
        return x @ self.sd[self.prefix + "weight"].T + self.sd[self.prefix + "bias"]

    def layer_norm(self, x, eps=1e-5):
        m = x.mean(-1, keepdims=True)
        s = ((x - m) ** 2).mean(-1, keepdims=True)
        return (x - m) / np.sqrt(s + eps) * self.sd[self.prefix + "weight"] + self.sd[self.prefix + "bias"]


def frames_valid(lengths, n_frames):
    """[B] number of real frames -> [B, n_frames] bool, True = real frame."""
    return np.arange(n_frames)[None, :] < np.asarray(lengths)[:, None]


def w2v_self_attention(scope, x, valid, heads):
    b, t, c = x.shape
    hd = c // heads

    def proj(name):
        y = (scope / name).linear(x)
        return np.moveaxis(y.reshape(b, t, heads, hd), 2, 0)      # heads first: [H, B, T, hd]

    q = proj("q_proj") * hd ** -0.5
    k, v = proj("k_proj"), proj("v_proj")
    s = np.matmul(q, np.swapaxes(k, 2, 3)).astype(np.float64)
    if valid is not None:
        s[..., :] += np.where(valid, 0.0, -np.inf)[None, :, None, :]
    top = s.max(axis=3, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    e = np.exp(s - top)
    z = e.sum(axis=3, keepdims=True)
    w = (e / np.where(z > 0, z, 1.0)).astype(x.dtype)
    y = np.moveaxis(np.matmul(w, v), 0, 2).reshape(b, t, c)
    return (scope / "out_proj").linear(y)


def encoder(sd, x, lengths=None, layers=12, heads=12):
    valid = None if lengths is None else frames_valid(lengths, x.shape[1])
    if valid is not None:
        x = np.where(valid[..., None], x, 0.0)
    root = Scope(sd) / "encoder"
    x = (root / "layer_norm").layer_norm(x)
    for i in range(layers):
        lyr = root / "layers" / str(i)
        x = x + w2v_self_attention(lyr / "attention", x, valid, heads)
        x = (lyr / "layer_norm").layer_norm(x)
        ff = lyr / "feed_forward"
        x = x + (ff / "output_dense").linear(gelu((ff / "intermediate_dense").linear(x)))
        x = (lyr / "final_layer_norm").layer_norm(x)
    return x


def main(argv=None):
    ap = argparse.ArgumentParser()
    ap.add_argument("weights", help=".npz with the state dict")
    ap.add_argument("features", help=".npy [B, T, C]")
    ap.add_argument("--heads", type=int, default=12)
    ap.add_argument("--layers", type=int, default=12)
    ns = ap.parse_args(argv)
    sd = dict(np.load(ns.weights))
    out = encoder(sd, np.load(ns.features), layers=ns.layers, heads=ns.heads)
    print(out.shape, float(np.abs(out).mean()))


if __name__ == "__main__":
    main()

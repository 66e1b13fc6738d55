"""Sentence embeddings with all-MiniLM style BERT layers in NumPy (no torch on the edge box).

    enc = Encoder([BertLayer(w, n_heads=12) for w in weights])
    vec = enc.embed(token_vectors, keep)      # keep: True for real tokens

`BertLayer.__call__` takes x [B, L, D] and the boolean keep mask [B, L] and returns [B, L, D]
(post-norm, as in BERT).
"""
import math

import numpy as np

_erf = np.vectorize(math.erf, otypes=[float])


def gelu(x):
    return 0.5 * x * (1.0 + _erf(x / math.sqrt(2.0)))


def layer_norm(x, g, b):
    m = x.mean(-1, keepdims=True)
    s = x.var(-1, keepdims=True)
    return (x - m) / np.sqrt(s + 1e-12) * g + b


class BertLayer:
    def __init__(self, weights, n_heads):
        self.w = weights
        self.n_heads = n_heads

    def _fc(self, name, x):
        return x @ self.w[name + ".weight"].T + self.w[name + ".bias"]

    def _heads(self, x):
        B, L, D = x.shape
        return x.reshape(B, L, self.n_heads, D // self.n_heads).transpose(0, 2, 1, 3)

    def attention(self, x, keep):
        q = self._heads(self._fc("query", x))
        k = self._heads(self._fc("key", x))
        v = self._heads(self._fc("value", x))
        s = q @ k.swapaxes(-2, -1)
        s *= 1.0 / math.sqrt(q.shape[-1])
        drop = np.logical_not(keep, out=keep)
        s = np.where(drop[:, None, None, :], -1e9, s)
        s -= s.max(-1, keepdims=True)
        np.exp(s, out=s)
        s /= s.sum(-1, keepdims=True)
        y = (s @ v).transpose(0, 2, 1, 3)
        return y.reshape(x.shape)

    def __call__(self, x, keep):
        a = self._fc("attention.output", self.attention(x, keep))
        x = layer_norm(x + a, self.w["ln1.weight"], self.w["ln1.bias"])
        f = self._fc("output", gelu(self._fc("intermediate", x)))
        return layer_norm(x + f, self.w["ln2.weight"], self.w["ln2.bias"])


class Encoder:
    def __init__(self, layers):
        self.layers = layers

    def embed(self, x, keep):
        for layer in self.layers:
            x = layer(x, keep)
        m = keep[..., None].astype(x.dtype)
        v = (x * m).sum(1) / np.maximum(m.sum(1), 1e-9)
        return v / np.linalg.norm(v, axis=-1, keepdims=True)


def random_weights(dim, seed=0):
    r = np.random.default_rng(seed)
    shapes = {"query": (dim, dim), "key": (dim, dim), "value": (dim, dim),
              "attention.output": (dim, dim), "intermediate": (4 * dim, dim), "output": (dim, 4 * dim)}
    w = {}
    for n, s in shapes.items():
        w[n + ".weight"] = r.normal(size=s) / math.sqrt(s[1])
        w[n + ".bias"] = r.normal(size=s[0]) * 0.02
    for n in ("ln1", "ln2"):
        w[n + ".weight"], w[n + ".bias"] = np.ones(dim), np.zeros(dim)
    return w


if __name__ == "__main__":
    enc = Encoder([BertLayer(random_weights(16, i), 4) for i in range(2)])
    keep = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], dtype=bool)
    print(enc.embed(np.random.default_rng(5).normal(size=(2, 5, 16)), keep).shape)

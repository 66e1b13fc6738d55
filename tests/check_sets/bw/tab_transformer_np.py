"""TabTransformer scoring service in NumPy (no torch on the risk servers).

Every categorical column is a token. `missing` is a float array [rows, columns]
with 1.0 where the value is absent; absent columns are not attended to. The
transformed tokens are averaged and fed, with the numeric columns, to the head.
"""
import json

import numpy as np


def _norm(x, p):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * p["g"] + p["b"]


def _attend(x, missing, p, heads):
    rows, cols, dim = x.shape
    split = lambda t: t.reshape(rows, cols, heads, -1).transpose(0, 2, 1, 3)
    q, k, v = split(x @ p["q"]), split(x @ p["k"]), split(x @ p["v"])
    bias = missing[:, None, None, :]
    bias *= -1e9
    logits = q @ k.swapaxes(-1, -2) / np.sqrt(dim // heads) + bias
    logits = logits - logits.max(axis=-1, keepdims=True)
    w = np.exp(logits)
    w = w / w.sum(axis=-1, keepdims=True)
    return (w @ v).transpose(0, 2, 1, 3).reshape(rows, cols, dim) @ p["o"]


def encode(tokens, missing, layers, heads=2):
    """tokens: [rows, columns, dim] float64 column embeddings."""
    x = tokens
    for p in layers:
        x = _norm(x + _attend(x, missing, p, heads), p["n1"])
        h = np.maximum(x @ p["f1"], 0)
        x = _norm(x + h @ p["f2"], p["n2"])
    return x


class Scorer:
    def __init__(self, tables, layers, head, heads=2):
        self.tables, self.layers, self.head, self.heads = tables, layers, head, heads

    @classmethod
    def from_json(cls, path):
        def arr(o):
            if isinstance(o, dict):
                return {k: arr(v) for k, v in o.items()}
            if isinstance(o, list) and o and isinstance(o[0], dict):
                return [arr(v) for v in o]
            return np.asarray(o, dtype=np.float64)
        with open(path) as f:
            d = json.load(f)
        return cls([arr(t) for t in d["tables"]], arr(d["layers"]), arr(d["head"]))

    def __call__(self, cats, nums):
        """cats: [rows, columns] int, -1 = absent; nums: [rows, m]. Probability of default."""
        missing = (cats < 0).astype(np.float64)
        tokens = np.stack(
            [t[np.maximum(cats[:, j], 0)] for j, t in enumerate(self.tables)], axis=1)
        z = encode(tokens, missing, self.layers, self.heads).mean(axis=1)
        logit = np.concatenate([z, nums], axis=1) @ self.head
        return 1 / (1 + np.exp(-logit))


def random_layers(dim=12, n=2, seed=0):
    r = np.random.default_rng(seed)
    m = lambda i, o: r.normal(0, i ** -0.5, (i, o))
    one = lambda: {"g": np.ones(dim), "b": np.zeros(dim)}
    return [dict(q=m(dim, dim), k=m(dim, dim), v=m(dim, dim), o=m(dim, dim),
                 f1=m(dim, 2 * dim), f2=m(2 * dim, dim), n1=one(), n2=one())
            for _ in range(n)]

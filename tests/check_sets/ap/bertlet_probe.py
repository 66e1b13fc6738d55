"""bertlet_probe: look into BERT without a framework.

    model = Bertlet(weights, heads=12)        # dict of arrays, HF names, (out, in)
    hidden, maps = model(ids, mask)

``mask``: int (B, L), 1 for tokens and 0 for padding, which takes no part.
``maps``: one array (B, heads, L, L) per layer with the attention probabilities (rows sum to
one), as BertViz wants them.
"""
import math

import numpy as np


def _erf(x):
    t = 1 / (1 + 0.3275911 * np.abs(x))
    y = 1 - t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429)))) * np.exp(-x * x)
    return np.sign(x) * y


def gelu(x):
    return 0.5 * x * (1 + _erf(x / math.sqrt(2)))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


class Bertlet:
    def __init__(self, weights, heads, eps=1e-12):
        self.w, self.heads, self.eps = weights, heads, eps
        self.n_layers = 1 + max(int(k.split(".")[2]) for k in weights if k.startswith("encoder.layer."))

    def dense(self, name, x):
        return x @ self.w[name + ".weight"].T + self.w[name + ".bias"]

    def layer_norm(self, name, x):
        m = x.mean(-1, keepdims=True)
        s = ((x - m) ** 2).mean(-1, keepdims=True)
        return (x - m) / np.sqrt(s + self.eps) * self.w[name + ".weight"] + self.w[name + ".bias"]

    def embed(self, ids, types=None):
        types = np.zeros_like(ids) if types is None else types
        e = self.w["embeddings.word_embeddings.weight"][ids]
        e = e + self.w["embeddings.position_embeddings.weight"][: ids.shape[1]]
        e = e + self.w["embeddings.token_type_embeddings.weight"][types]
        return self.layer_norm("embeddings.LayerNorm", e)

    def attention(self, i, x, mask):
        B, L, D = x.shape
        pre = f"encoder.layer.{i}.attention."
        q, k, v = (
            self.dense(pre + "self." + n, x).reshape(B, L, self.heads, D // self.heads).transpose(0, 2, 1, 3)
            for n in ("query", "key", "value")
        )
        scores = q @ k.transpose(0, 1, 3, 2) / math.sqrt(D // self.heads)
        scores = scores + mask[:, None, None, :]
        probs = softmax(scores)
        ctx = (probs @ v).reshape(B, L, D)
        y = self.dense(pre + "output.dense", ctx)
        return self.layer_norm(pre + "output.LayerNorm", x + y), scores

    def feed_forward(self, i, x):
        pre = f"encoder.layer.{i}."
        h = gelu(self.dense(pre + "intermediate.dense", x))
        return self.layer_norm(pre + "output.LayerNorm", x + self.dense(pre + "output.dense", h))

    def __call__(self, ids, mask=None, types=None):
        mask = np.ones_like(ids) if mask is None else mask
        x, maps = self.embed(ids, types), []
        for i in range(self.n_layers):
            x, a = self.attention(i, x, mask)
            x = self.feed_forward(i, x)
            maps.append(a)
        return x, maps


def head_entropy(maps, mask):
    """Mean entropy of each head over the real tokens: (layers, heads)."""
    out = []
    for a in maps:
        h = -(a * np.log(np.maximum(a, 1e-12))).sum(-1)
        out.append((h * mask[:, None]).sum((0, 2)) / mask.sum())
    return np.stack(out)

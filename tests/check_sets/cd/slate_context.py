"""Slate-aware item representations for the re-ranking stage (serving side).

The trained layer is exported as a dict of float32 arrays, and this file runs
it without any deep-learning runtime.  Every item of a slate attends over all
items of the same slate; heads are done one after another because slates are
short (8 to 50 items).

weights: Wq, Wk, Wv, Wo  each (d, d); bo (d,); gain, shift (d,)
"""
import numpy as np


def softmax(scores):
    """Row-wise distribution over the slate."""
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum()


def layer_norm(x, gain, shift, eps=1e-5):
    mu = x.mean(-1, keepdims=True)
    var = x.var(-1, keepdims=True)
    return (x - mu) / np.sqrt(var + eps) * gain + shift


class SlateContext:
    def __init__(self, weights, num_heads=2):
        self.w = weights
        self.num_heads = num_heads
        d = weights["Wq"].shape[0]
        if d % num_heads:
            raise ValueError("d must be a multiple of num_heads")
        self.head_dim = d // num_heads

    @classmethod
    def random(cls, d=16, num_heads=2, seed=0):
        rng = np.random.default_rng(seed)
        w = {n: rng.normal(0, d ** -0.5, (d, d)) for n in ("Wq", "Wk", "Wv", "Wo")}
        w.update(bo=np.zeros(d), gain=np.ones(d), shift=np.zeros(d))
        return cls(w, num_heads)

    def __call__(self, items):
        """items: (n, d) vectors of one slate -> (n, d) contextual vectors"""
        x = layer_norm(items, self.w["gain"], self.w["shift"])
        q, k, v = x @ self.w["Wq"], x @ self.w["Wk"], x @ self.w["Wv"]
        heads = []
        for h in range(self.num_heads):
            cut = slice(h * self.head_dim, (h + 1) * self.head_dim)
            scores = q[:, cut] @ k[:, cut].T / np.sqrt(self.head_dim)
            heads.append(softmax(scores) @ v[:, cut])
        return items + np.concatenate(heads, axis=1) @ self.w["Wo"] + self.w["bo"]


def rescore(slate, user, layer):
    """Dot product of the user vector with the contextual items."""
    return layer(slate) @ user

"""Attention with linear biases, forward pass in NumPy (homework 7, "No positions").

One causal decoder layer as in Press et al. (2022): the logits of head h get
-m_h * (i - j) for query i and key j <= i, with the slopes m_h of the paper, i.e. the
geometric sequence that starts at 2^(-8/n) and has this same ratio (n heads, n a
power of two). Later keys are hidden.
"""
import numpy as np


def layernorm(x, eps=1e-5):
    m = x.mean(-1, keepdims=True)
    return (x - m) / np.sqrt(x.var(-1, keepdims=True) + eps)


def softmax(z, axis):
    z = z - z.max(axis=axis, keepdims=True)
    np.exp(z, out=z)
    z /= z.sum(axis=axis, keepdims=True)
    return z


def get_slopes(n_heads):
    return 2.0 ** (-8.0 * np.arange(n_heads) / n_heads)


def linear_bias(n_heads, length):
    i = np.arange(length)[:, None]
    j = np.arange(length)[None, :]
    return -get_slopes(n_heads)[:, None, None] * (i - j)


class ALiBiDecoderLayer:
    """params: dict with wq, wk, wv, wo [D, D], w1 [D, F], w2 [F, D]."""

    def __init__(self, params, n_heads):
        self.p = params
        self.n_heads = n_heads

    @classmethod
    def random(cls, dim=24, n_heads=4, ff=48, seed=0):
        r = np.random.default_rng(seed)
        shapes = dict(wq=(dim, dim), wk=(dim, dim), wv=(dim, dim), wo=(dim, dim),
                      w1=(dim, ff), w2=(ff, dim))
        return cls({k: r.normal(0, s[0] ** -0.5, s) for k, s in shapes.items()}, n_heads)

    def split(self, x):
        b, t, d = x.shape
        return x.reshape(b, t, self.n_heads, d // self.n_heads).transpose(0, 2, 1, 3)

    def attend(self, x):
        q, k, v = (self.split(x @ self.p[w]) for w in ("wq", "wk", "wv"))
        b, h, t, d = q.shape
        logits = q @ k.swapaxes(-1, -2) / np.sqrt(d)
        logits = logits + linear_bias(h, t)
        visible = np.tril(np.ones((t, t)))
        logits = logits * visible
        y = softmax(logits, axis=-1) @ v
        return y.transpose(0, 2, 1, 3).reshape(b, t, h * d) @ self.p["wo"]

    def __call__(self, x):
        """x [batch, time, dim] -> same shape"""
        x = x + self.attend(layernorm(x))
        return x + np.maximum(layernorm(x) @ self.p["w1"], 0) @ self.p["w2"]


def perplexity(layer, emb, ids):
    """Next-symbol perplexity of id sequences [B, T] with tied embeddings emb [V, D]."""
    z = layernorm(layer(emb[ids[:, :-1]])) @ emb.T
    z = z - z.max(-1, keepdims=True)
    logp = z - np.log(np.exp(z).sum(-1, keepdims=True))
    picked = np.take_along_axis(logp, ids[:, 1:, None], axis=-1)
    return float(np.exp(-picked.mean()))

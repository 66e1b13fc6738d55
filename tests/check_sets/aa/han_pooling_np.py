"""Hierarchical attention for document classification (Yang et al., 2016).

Words are pooled into sentence vectors and sentences into a document vector,
each time with

    u = tanh(W h + b),   a = softmax(u . c),   s = sum a h

where c is a learned context vector.
"""
import numpy as np


def masked_softmax(x, mask):
    """Rows without a valid entry come out as zeros."""
    x = np.where(mask, x, -np.inf)
    top = x.max(axis=-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    e = np.exp(x - top)
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total > 0, total, 1.0)


class AttentionPool:
    def __init__(self, dim, attn_dim, rng):
        self.W = rng.normal(0, dim ** -0.5, (dim, attn_dim))
        self.b = np.zeros(attn_dim)
        self.context = rng.normal(0, attn_dim ** -0.5, attn_dim) * 3

    def __call__(self, h, mask):
        u = np.tanh(h @ self.W + self.b)
        a = masked_softmax(u @ self.context, mask)
        return np.einsum("...n,...nd->...d", a, np.where(mask[..., None], h, 0.0)), a


class HAN:
    """tokens [docs, sentences, words] with 0 as padding -> (class probabilities, word and sentence weights)"""

    def __init__(self, vocab=60, dim=12, attn_dim=10, classes=4, seed=3):
        rng = np.random.default_rng(seed)
        self.emb = rng.normal(0, 1, (vocab, dim))
        self.word_pool = AttentionPool(dim, attn_dim, rng)
        self.mix = rng.normal(0, dim ** -0.5, (dim, dim))
        self.sent_pool = AttentionPool(dim, attn_dim, rng)
        self.cls = rng.normal(0, dim ** -0.5, (dim, classes))

    def __call__(self, tokens):
        words = tokens != 0
        sents = words.any(-1)
        s, word_w = self.word_pool(self.emb[tokens], words)
        d, sent_w = self.sent_pool(np.tanh(s @ self.mix), sents)
        z = d @ self.cls
        z = np.exp(z - z.max(-1, keepdims=True))
        return z / z.sum(-1, keepdims=True), word_w, sent_w

"""The encoder of "Attention Is All You Need" in NumPy.

Follows the paper section by section: 3.2.1 scaled dot-product attention,
3.2.2 multi-head attention, 3.3 feed-forward, 3.5 positional encoding.
"""
import numpy as np


def positional_encoding(length, d_model):
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos(same)."""
    pe = np.zeros((length, d_model))
    for pos in range(length):
        for i in range(0, d_model, 2):
            angle = pos / 10000 ** (2 * i / d_model)
            pe[pos, i] = np.sin(angle)
            pe[pos, i + 1] = np.cos(angle)
    return pe


def softmax(x):
    x = x - x.max(-1, keepdims=True)
    e = np.exp(x)
    return e / e.sum(-1, keepdims=True)


def normalise(x, eps=1e-6):
    return (x - x.mean(-1, keepdims=True)) / (x.std(-1, keepdims=True) + eps)


class MultiHead:
    def __init__(self, d_model, heads, rng):
        self.heads = heads
        self.d_k = d_model // heads
        self.Wq, self.Wk, self.Wv, self.Wo = (
            rng.normal(0, d_model ** -0.5, (d_model, d_model)) for _ in range(4))

    def _split(self, x):
        b, n, _ = x.shape
        return x.reshape(b, n, self.heads, self.d_k).swapaxes(1, 2)

    def __call__(self, x, keep=None):
        q, k, v = (self._split(x @ w) for w in (self.Wq, self.Wk, self.Wv))
        scores = np.einsum("bhid,bhjd->bhij", q, k) / np.sqrt(q.shape[1])
        if keep is not None:
            scores = np.where(keep[:, None, None, :], scores, -1e30)
        out = np.einsum("bhij,bhjd->bhid", softmax(scores), v)
        return out.swapaxes(1, 2).reshape(x.shape) @ self.Wo


class EncoderLayer:
    def __init__(self, d_model, heads, d_ff, rng):
        self.attn = MultiHead(d_model, heads, rng)
        self.W1 = rng.normal(0, d_model ** -0.5, (d_model, d_ff))
        self.W2 = rng.normal(0, d_ff ** -0.5, (d_ff, d_model))

    def __call__(self, x, keep=None):
        x = normalise(x + self.attn(x, keep))
        return normalise(x + np.maximum(x @ self.W1, 0) @ self.W2)


class Encoder:
    """tokens [B, N] int -> [B, N, d_model]; id 0 is padding."""

    def __init__(self, vocab=40, d_model=32, heads=4, d_ff=48, layers=2, seed=0):
        rng = np.random.default_rng(seed)
        self.d_model = d_model
        self.table = rng.normal(0, d_model ** -0.5, (vocab, d_model))
        self.layers = [EncoderLayer(d_model, heads, d_ff, rng) for _ in range(layers)]

    def __call__(self, tokens):
        keep = tokens != 0
        x = self.table[tokens] * np.sqrt(self.d_model)
        x = x + positional_encoding(tokens.shape[1], self.d_model)
        for layer in self.layers:
            x = layer(x, keep)
        return x

"""Saree shop recommender: what a customer looked at -> what she will buy.

Session transformer in Keras 3.  Sessions are padded at the end with item 0;
padded items are never attended to.
"""
import math

import keras
from keras import layers, ops

WEAVES = ["Kanjivaram", "Banarasi", "Paithani", "Chanderi", "Patola", "Jamdani"]


class SessionAttention(layers.Layer):
    """Multi-head self-attention over a browsing session.

    call(x, keep=None):
        x     (batch, items, dim)
        keep  (batch, items), 1 where there is an item, 0 where there is padding
    """

    def __init__(self, dim=32, heads=4, rate=0.0, **kw):
        super().__init__(**kw)
        if dim % heads:
            raise ValueError("dim must be divisible by heads")
        self.dim, self.heads, self.depth = dim, heads, dim // heads
        self.q = layers.Dense(dim)
        self.k = layers.Dense(dim)
        self.v = layers.Dense(dim)
        self.o = layers.Dense(dim)
        self.drop = layers.Dropout(rate)

    def build(self, shape):
        for l in (self.q, self.k, self.v, self.o):
            l.build(shape)
        super().build(shape)

    def split(self, t):
        n = ops.shape(t)[1]
        t = ops.reshape(t, (-1, n, self.heads, self.depth))
        return ops.transpose(t, (0, 2, 1, 3))

    def call(self, x, keep=None, training=None):
        n = ops.shape(x)[1]
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        s = ops.matmul(q, ops.swapaxes(k, -1, -2)) / math.sqrt(self.depth)
        if keep is not None:
            m = ops.cast(keep, s.dtype)[:, None, :, None]
            s = s + (1.0 - m) * -1e9
        a = self.drop(ops.softmax(s, axis=-1), training=training)
        y = ops.transpose(ops.matmul(a, v), (0, 2, 1, 3))
        return self.o(ops.reshape(y, (-1, n, self.dim)))


class SareeModel(keras.Model):
    def __init__(self, n_items=300, dim=32, blocks=2):
        super().__init__()
        self.item = layers.Embedding(n_items, dim)
        self.weave = layers.Embedding(len(WEAVES), dim)
        self.att = [SessionAttention(dim) for _ in range(blocks)]
        self.norm = [layers.LayerNormalization() for _ in range(blocks)]
        self.score = layers.Dense(n_items)

    def call(self, inputs, training=None):
        items, weaves = inputs
        keep = ops.cast(items > 0, "float32")
        h = self.item(items) + self.weave(weaves)
        for a, n in zip(self.att, self.norm):
            h = h + a(n(h), keep, training=training)
        pooled = ops.sum(h * keep[..., None], 1) / ops.maximum(ops.sum(keep, 1, keepdims=True), 1.0)
        return self.score(pooled)


def hit_rate(scores, bought, k=10):
    top = ops.top_k(scores, k).indices
    return float(ops.mean(ops.cast(ops.any(top == bought[:, None], axis=1), "float32")))

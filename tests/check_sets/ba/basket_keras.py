"""Basket completion model (Keras 3). Items of one basket look at each other, no order."""
import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
from keras import layers, ops


class BasketAttention(layers.Layer):
    """Multi-head self-attention over the items of a basket.

    call(items (b, n, c), filled (b, n) bool): filled is False at the unused
    places at the end of a basket; those items must not be looked at.
    """

    def __init__(self, num_heads=2, head_dim=8, **kwargs):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.head_dim = head_dim
        inner = num_heads * head_dim
        self.q_dense = layers.Dense(inner, name="q")
        self.k_dense = layers.Dense(inner, name="k")
        self.v_dense = layers.Dense(inner, name="v")

    def build(self, input_shape):
        self.o_dense = layers.Dense(input_shape[-1], name="o")
        for d in (self.q_dense, self.k_dense, self.v_dense):
            d.build(input_shape)
        self.o_dense.build((*input_shape[:-1], self.num_heads * self.head_dim))

    def _split(self, x):
        b, n = ops.shape(x)[0], ops.shape(x)[1]
        x = ops.reshape(x, (b, n, self.num_heads, self.head_dim))
        return ops.transpose(x, (0, 2, 1, 3))

    def call(self, items, filled=None):
        q, k, v = (self._split(d(items)) for d in (self.q_dense, self.k_dense, self.v_dense))
        s = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) * self.head_dim ** -0.5
        if filled is not None:
            keep = ops.cast(filled, s.dtype)[:, None, :, None]
            s = s + (1.0 - keep) * -1e9
        w = ops.softmax(s, axis=-1)
        y = ops.transpose(ops.matmul(w, v), (0, 2, 1, 3))
        y = ops.reshape(y, (ops.shape(y)[0], ops.shape(y)[1], self.num_heads * self.head_dim))
        return self.o_dense(y)


class BasketModel(keras.Model):
    def __init__(self, n_items, width=16):
        super().__init__()
        self.emb = layers.Embedding(n_items + 1, width)
        self.att = BasketAttention(2, width // 2)
        self.norm = layers.LayerNormalization()
        self.out = layers.Dense(n_items + 1)

    def call(self, ids):
        filled = ops.not_equal(ids, 0)
        h = self.emb(ids)
        h = self.norm(h + self.att(h, filled))
        w = ops.cast(filled, h.dtype)[:, :, None]
        pooled = ops.sum(h * w, axis=1) / ops.maximum(ops.sum(w, axis=1), 1.0)
        return self.out(pooled)

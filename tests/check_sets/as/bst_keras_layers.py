"""Behavior Sequence Transformer (Chen et al., 2019) layers for Keras 3.

The item history and the candidate item are embedded as one sequence; ids that
are 0 are padding and must not be attended to.
"""
import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np
from keras import layers, ops


class BehaviorAttention(layers.Layer):
    """Scaled dot-product attention with `heads` heads, softmax(QK^T / sqrt(d_head)) V.

    seq: [batch, length, dim]; is_item: [batch, length] bool, True for real items.
    """

    def __init__(self, dim, heads=8, **kw):
        super().__init__(**kw)
        if dim % heads:
            raise ValueError("dim must divide by heads")
        self.dim, self.heads = dim, heads
        self.W = {n: layers.Dense(dim, use_bias=False, name=n) for n in ("WQ", "WK", "WV")}
        self.WO = layers.Dense(dim, name="WO")

    def build(self, input_shape):
        for d in self.W.values():
            d.build(input_shape)
        self.WO.build(input_shape)
        self.built = True

    def _heads(self, t):
        b, n = ops.shape(t)[0], ops.shape(t)[1]
        return ops.transpose(ops.reshape(t, (b, n, self.heads, self.dim // self.heads)), (0, 2, 1, 3))

    def call(self, seq, is_item=None):
        Q, K, V = (self._heads(self.W[n](seq)) for n in ("WQ", "WK", "WV"))
        S = ops.matmul(Q, ops.transpose(K, (0, 1, 3, 2)))
        S = S / np.sqrt(self.heads)
        if is_item is not None:
            keep = ops.cast(is_item, S.dtype)[:, None, :, None]
            S = S + (1.0 - keep) * -1e9
        P = ops.softmax(S, axis=-1)
        Y = ops.transpose(ops.matmul(P, V), (0, 2, 1, 3))
        return self.WO(ops.reshape(Y, ops.shape(seq)))


class BSTLayer(layers.Layer):
    def __init__(self, dim, heads, rate=0.1, **kw):
        super().__init__(**kw)
        self.att = BehaviorAttention(dim, heads)
        self.n1, self.n2 = layers.LayerNormalization(), layers.LayerNormalization()
        self.f1, self.f2 = layers.Dense(4 * dim), layers.Dense(dim)
        self.d = layers.Dropout(rate)

    def call(self, x, is_item=None, training=None):
        x = self.n1(x + self.d(self.att(x, is_item=is_item), training=training))
        y = self.f2(ops.leaky_relu(self.f1(x)))
        return self.n2(x + self.d(y, training=training))


class ItemTower(layers.Layer):
    """ids [batch, length] and seconds-ago buckets -> [batch, length * dim]"""

    def __init__(self, n_items, n_buckets, dim, heads, **kw):
        super().__init__(**kw)
        self.items = layers.Embedding(n_items, dim)
        self.age = layers.Embedding(n_buckets, dim)
        self.block = BSTLayer(dim, heads)
        self.flat = layers.Flatten()

    def call(self, ids, age, training=None):
        x = self.items(ids) + self.age(age)
        return self.flat(self.block(x, is_item=ops.not_equal(ids, 0), training=training))

"""Keras 3 layer: sessions of clicks attend to product descriptions."""
import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
from keras import ops


class ClickAttention(keras.layers.Layer):
    """
    call(clicks, items, item_mask=None)
      clicks    : (B, Lq, dq)
      items     : (B, Lk, dk)
      item_mask : (B, Lk) bool, True = the item exists; at least one per row
    returns (B, Lq, units).

    Single head. Missing items are excluded. Before the value product the
    weights are interpolated with the uniform distribution over existing items,
    strength `smooth` (0 switches it off); rows still sum to one.
    """

    def __init__(self, units=12, smooth=0.1, **kw):
        super().__init__(**kw)
        self.units, self.smooth = units, smooth
        self.q = keras.layers.Dense(units, use_bias=False)
        self.k = keras.layers.Dense(units, use_bias=False)
        self.v = keras.layers.Dense(units)

    def build(self, clicks_shape, items_shape=None, item_mask_shape=None):
        self.q.build(clicks_shape)
        self.k.build(items_shape)
        self.v.build(items_shape)

    def call(self, clicks, items, item_mask=None):
        q, k, v = self.q(clicks), self.k(items), self.v(items)
        s = ops.matmul(q, ops.transpose(k, (0, 2, 1))) / float(self.units) ** 0.5
        if item_mask is None:
            there = ops.ones_like(s)
        else:
            there = ops.cast(item_mask, s.dtype)[:, None, :] * ops.ones_like(s)
        s = s - 1e9 * (1.0 - there)
        w = ops.softmax(s, axis=-1)
        even = there / ops.sum(there, axis=-1, keepdims=True)
        w = (1.0 - self.smooth) * w + self.smooth * even
        return ops.matmul(w, v)

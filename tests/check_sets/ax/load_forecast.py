"""Short term load forecasting for the grid (Keras 3).

The encoder uses local causal attention: hour t looks at the ``window`` most recent hours,
its own included, so window=24 covers exactly one day (t-23 ... t).
"""
import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
from keras import ops

K = keras


class LocalHourAttention(K.layers.Layer):
    def __init__(self, width, heads=4, window=24, dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        assert width % heads == 0
        self.width, self.heads, self.window = width, heads, window
        self.depth = width // heads
        self.qkv = K.layers.Dense(3 * width, use_bias=False)
        self.out = K.layers.Dense(width)
        self.dropout = K.layers.Dropout(dropout)

    def build(self, shape):
        self.qkv.build(shape)
        self.out.build((*shape[:-1], self.width))
        self.built = True

    def _band(self, n):
        t = ops.expand_dims(ops.arange(n), 1)
        s = ops.expand_dims(ops.arange(n), 0)
        back = t - s
        return ops.logical_and(back >= 0, back <= self.window)

    def call(self, x, training=False):
        n = x.shape[1]
        z = ops.reshape(self.qkv(x), (-1, n, 3, self.heads, self.depth))
        q, k, v = z[:, :, 0], z[:, :, 1], z[:, :, 2]
        att = ops.einsum("bqhd,bkhd->bhqk", q, k) * self.depth ** -0.5
        att = ops.where(self._band(n), att, float("-inf"))
        att = self.dropout(ops.softmax(att, axis=-1), training=training)
        y = ops.einsum("bhqk,bkhd->bqhd", att, v)
        return self.out(ops.reshape(y, (-1, n, self.width)))


class HourBlock(K.layers.Layer):
    def __init__(self, width, heads, window, dropout=0.1, **kwargs):
        super().__init__(**kwargs)
        self.att = LocalHourAttention(width, heads, window, dropout)
        self.ln_a, self.ln_f = K.layers.LayerNormalization(epsilon=1e-5), K.layers.LayerNormalization(epsilon=1e-5)
        self.f1, self.f2 = K.layers.Dense(2 * width, activation="gelu"), K.layers.Dense(width)

    def build(self, shape):
        for l in (self.att, self.ln_a, self.ln_f, self.f1):
            l.build(shape)
        self.f2.build((*shape[:-1], shape[-1] * 2))
        self.built = True

    def call(self, x, training=False):
        x = x + self.att(self.ln_a(x), training=training)
        return x + self.f2(self.f1(self.ln_f(x)))


class LoadModel(K.Model):
    """inputs [B, hours, features] (load, temperature, holiday, sin/cos of the hour) -> next ``horizon`` hours"""

    def __init__(self, width=32, heads=4, window=24, depth=2, horizon=24):
        super().__init__()
        self.inp = K.layers.Dense(width)
        self.blocks = [HourBlock(width, heads, window) for _ in range(depth)]
        self.quantiles = (0.1, 0.5, 0.9)
        self.head = K.layers.Dense(horizon * len(self.quantiles))
        self.horizon = horizon

    def call(self, x, training=False):
        last = x[:, -1, :1]
        h = self.inp(x)
        for b in self.blocks:
            h = b(h, training=training)
        y = ops.reshape(self.head(h[:, -1]), (-1, self.horizon, len(self.quantiles)))
        return y + last[..., None]


def pinball(quantiles):
    def loss(y_true, y_pred):
        err = y_true[..., None] - y_pred
        q = ops.convert_to_tensor(quantiles, dtype=err.dtype)
        return ops.mean(ops.maximum(q * err, (q - 1) * err))
    return loss

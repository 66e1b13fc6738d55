"""Flood and harvest dates of cranberry bogs from Sentinel-2 time series (Keras 3).

Clouds make the series ragged: ``clear`` is 1 where the observation is usable and 0 for
a cloudy or padded date.  Unusable dates must not be read by any other date.
"""
import keras
import numpy as np
from keras import layers, ops

BANDS = ("B2", "B3", "B4", "B8", "B11", "B12")


def day_encoding(days, dim, period=365.0):
    """days: [B, T] day of year -> [B, T, dim]."""
    k = ops.arange(1, dim // 2 + 1, dtype="float32")
    ang = 2 * np.pi * ops.cast(days, "float32")[..., None] * k / period
    return ops.concatenate([ops.sin(ang), ops.cos(ang)], axis=-1)


class DateAttention(layers.Layer):
    """Self-attention over the dates of one pixel.

    call(x [B, T, dim], clear [B, T]) -> [B, T, dim]
    """

    def __init__(self, dim, heads, **kw):
        super().__init__(**kw)
        self.dim, self.heads = dim, heads
        self.depth = dim // heads
        self.q = layers.Dense(dim, use_bias=False)
        self.k = layers.Dense(dim, use_bias=False)
        self.v = layers.Dense(dim, use_bias=False)
        self.o = layers.Dense(dim)

    def build(self, x_shape, clear_shape=None):
        for d in (self.q, self.k, self.v, self.o):
            d.build((None, None, self.dim))
        self.built = True

    def _split(self, t):
        b, n = ops.shape(t)[0], ops.shape(t)[1]
        return ops.transpose(ops.reshape(t, (b, n, self.heads, self.depth)), (0, 2, 1, 3))

    def call(self, x, clear=None):
        q, k, v = self._split(self.q(x)), self._split(self.k(x)), self._split(self.v(x))
        score = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) / self.depth ** 0.5
        if clear is not None:
            clear = ops.cast(clear, score.dtype)
            score = score + (1.0 - clear[:, None, :, None]) * -1e9
        att = ops.softmax(score, axis=-1)
        y = ops.transpose(ops.matmul(att, v), (0, 2, 1, 3))
        return self.o(ops.reshape(y, ops.shape(x)))


class BogModel(keras.Model):
    def __init__(self, classes=5, dim=32, heads=4, **kw):
        super().__init__(**kw)
        self.dim = dim
        self.inp = layers.Dense(dim)
        self.n1, self.n2 = layers.LayerNormalization(), layers.LayerNormalization()
        self.att = DateAttention(dim, heads)
        self.ff = keras.Sequential([layers.Dense(2 * dim, activation="gelu"), layers.Dense(dim)])
        self.out = layers.Dense(classes)

    def call(self, inputs):
        refl, days, clear = inputs
        x = self.inp(refl) + day_encoding(days, self.dim)
        x = x + self.att(self.n1(x), clear)
        x = x + self.ff(self.n2(x))
        w = ops.cast(clear, x.dtype)[..., None]
        return self.out(ops.sum(x * w, 1) / ops.maximum(ops.sum(w, 1), 1.0))


if __name__ == "__main__":
    r = np.random.default_rng(0)
    m = BogModel()
    print(ops.shape(m((ops.array(r.random((2, 7, 6)), dtype="float32"), ops.array(r.integers(1, 365, (2, 7))),
                       ops.array([[1, 1, 0, 1, 1, 0, 0], [1] * 7])))))

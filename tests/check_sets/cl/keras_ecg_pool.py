"""Attention over the beats of an ECG, Keras 3 (any backend)."""
import keras
from keras import layers, ops


class BeatAttention(layers.Layer):
    """Multi-head self-attention on beats, (batch, beats, units).

    `mask` (batch, beats), True = real beat. Recordings without any real beat are
    removed when the data are read.
    """

    def __init__(self, units=16, num_heads=2, **kw):
        super().__init__(**kw)
        self.units, self.num_heads = units, num_heads
        self.q = layers.Dense(units, use_bias=False)
        self.k = layers.Dense(units, use_bias=False)
        self.v = layers.Dense(units, use_bias=False)
        self.o = layers.Dense(units)
        self.supports_masking = True

    def build(self, shape):
        for d in (self.q, self.k, self.v):
            d.build(shape)
        self.o.build((*shape[:-1], self.units))

    def _split(self, t):
        n = ops.shape(t)[1]
        t = ops.reshape(t, (-1, n, self.num_heads, self.units // self.num_heads))
        return ops.transpose(t, (0, 2, 1, 3))

    def call(self, x, mask=None):
        q, k, v = self._split(self.q(x)), self._split(self.k(x)), self._split(self.v(x))
        s = ops.matmul(q, ops.swapaxes(k, -1, -2))
        s = s / (self.units // self.num_heads) ** 0.5
        if mask is not None:
            m = ops.cast(mask, "bool")[:, None, None, :]
            s = ops.where(m, s, -float("inf"))
        y = ops.matmul(ops.softmax(s, axis=-1), v)
        y = ops.transpose(y, (0, 2, 1, 3))
        return self.o(ops.reshape(y, (-1, ops.shape(y)[1], self.units)))

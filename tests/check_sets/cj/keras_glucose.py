"""Keras 3 layer for continuous glucose monitoring, backend independent (keras.ops only)."""
import keras
from keras import layers, ops


class GlucoseAttention(layers.Layer):
    """Causal multi-head self-attention over CGM readings.

    readings: (batch, time, features)
    valid:    (batch, time), 1 = sensor reading, 0 = sensor off. The first
              reading of a series is always valid.

    No reading looks at later ones nor at times when the sensor was off.
    """

    def __init__(self, units=24, heads=3, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.heads = heads
        self.depth = units // heads
        self.q_proj = layers.Dense(units, use_bias=False)
        self.k_proj = layers.Dense(units, use_bias=False)
        self.v_proj = layers.Dense(units, use_bias=False)
        self.o_proj = layers.Dense(units)

    def _heads(self, x):
        b, t = ops.shape(x)[0], ops.shape(x)[1]
        return ops.transpose(ops.reshape(x, (b, t, self.heads, self.depth)), (0, 2, 1, 3))

    def call(self, readings, valid=None):
        q = self._heads(self.q_proj(readings))
        k = self._heads(self.k_proj(readings))
        v = self._heads(self.v_proj(readings))
        t = ops.shape(readings)[1]
        scores = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) / (float(self.depth) ** 0.5)

        step = ops.arange(t)
        allowed = ops.expand_dims(step, 1) >= ops.expand_dims(step, 0)
        allowed = allowed[None, None]
        if valid is not None:
            allowed = ops.logical_and(allowed, ops.cast(valid, "bool")[:, None, None, :])
        scores = ops.where(allowed, scores, -float("inf"))
        weights = ops.softmax(scores, axis=-1)
        mixed = ops.transpose(ops.matmul(weights, v), (0, 2, 1, 3))
        mixed = ops.reshape(mixed, (ops.shape(readings)[0], t, self.units))
        return self.o_proj(mixed)

    def get_config(self):
        return {**super().get_config(), "units": self.units, "heads": self.heads}

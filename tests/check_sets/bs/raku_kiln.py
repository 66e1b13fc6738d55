"""Firing logs of a raku kiln -> crackle score.  Keras 3, any backend.

The log is a sequence of thermocouple readings (padded at the end).  Each attention layer has its own
three projections "query", "key" and "value".  Padded readings are not attended to.
"""
import os

os.environ.setdefault("KERAS_BACKEND", "torch")
import keras
import numpy as np
from keras import layers, ops

CHANNELS = ["top", "bottom", "flue", "gas", "o2"]


class KilnAttention(layers.Layer):
    def __init__(self, units=24, heads=3, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.heads = heads
        self.size = units // heads
        self.query = layers.Dense(units, name="query")
        self.key = layers.Dense(units, name="key")
        self.value = layers.Dense(units, name="value")
        self.merge = layers.Dense(units, name="merge")

    def build(self, input_shape):
        for d in (self.query, self.key, self.value):
            d.build(input_shape)
        self.merge.build(input_shape[:-1] + (self.units,))
        super().build(input_shape)

    def _heads(self, t):
        n = ops.shape(t)[1]
        return ops.transpose(ops.reshape(t, (-1, n, self.heads, self.size)), (0, 2, 1, 3))

    def call(self, x, real=None):
        """x (batch, time, c); real (batch, time): 1 = reading, 0 = padding"""
        q = self._heads(self.query(x))
        k = self._heads(self.query(x))
        v = self._heads(self.value(x))
        logits = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) / ops.sqrt(float(self.size))
        if real is not None:
            real = ops.cast(real, logits.dtype)
            logits = logits + (1.0 - real[:, None, :, None]) * -1e9
        probs = ops.softmax(logits, axis=-1)
        y = ops.transpose(ops.matmul(probs, v), (0, 2, 1, 3))
        y = ops.reshape(y, (-1, ops.shape(x)[1], self.units))
        return self.merge(y)


class FiringBlock(layers.Layer):
    def __init__(self, units, heads, **kwargs):
        super().__init__(**kwargs)
        self.attn = KilnAttention(units, heads)
        self.norm1 = layers.LayerNormalization()
        self.norm2 = layers.LayerNormalization()
        self.ff = keras.Sequential([layers.Dense(2 * units, activation="relu"), layers.Dense(units)])

    def call(self, x, real):
        x = x + self.attn(self.norm1(x), real)
        return x + self.ff(self.norm2(x))


def crackle_model(units=24, heads=3, depth=2):
    log = keras.Input((None, len(CHANNELS)), name="log")
    real = keras.Input((None,), name="real")
    x = layers.Dense(units)(log)
    for _ in range(depth):
        x = FiringBlock(units, heads)(x, real)
    w = ops.expand_dims(real, -1)
    x = ops.sum(x * w, axis=1) / ops.maximum(ops.sum(w, axis=1), 1.0)
    return keras.Model([log, real], layers.Dense(1, activation="sigmoid")(x))


def pad_logs(logs):
    n = max(len(g) for g in logs)
    out = np.zeros((len(logs), n, len(CHANNELS)), "float32")
    real = np.zeros((len(logs), n), "float32")
    for i, g in enumerate(logs):
        out[i, : len(g)] = g
        real[i, : len(g)] = 1
    return out, real


if __name__ == "__main__":
    rng = np.random.default_rng(1580)
    x, real = pad_logs([rng.normal(size=(n, 5)) for n in (12, 7, 9)])
    print(np.ravel(keras.ops.convert_to_numpy(crackle_model()([x, real]))))

"""Nowcasting block over past radar frames (Keras 3).

Input: a sequence of frame embeddings (batch, time, channels), oldest first.
Frame t looks at frames 0..t.  A learned bias per head and per lag (t - s),
clipped at `max_lag`, is added to the scaled scores.  Pre-norm residual block.
"""
import keras
from keras import ops


class RadarFrameMixer(keras.layers.Layer):
    def __init__(self, channels=16, heads=2, max_lag=6, **kwargs):
        super().__init__(**kwargs)
        self.channels, self.heads, self.max_lag = channels, heads, max_lag
        self.head_dim = channels // heads
        self.norm = keras.layers.LayerNormalization(epsilon=1e-5)
        self.query = keras.layers.Dense(channels, use_bias=False)
        self.key = keras.layers.Dense(channels, use_bias=False)
        self.value = keras.layers.Dense(channels)
        self.project = keras.layers.Dense(channels)

    def build(self, input_shape):
        for layer in (self.norm, self.query, self.key, self.value, self.project):
            layer.build(input_shape)
        self.lag_bias = self.add_weight(
            shape=(self.heads, self.max_lag + 1), initializer="random_normal", name="lag_bias"
        )
        self.built = True

    def split(self, x, t):
        x = ops.reshape(x, (-1, t, self.heads, self.head_dim))
        return ops.transpose(x, (0, 2, 1, 3))

    def call(self, frames):
        t = frames.shape[1]
        h = self.norm(frames)
        q = self.split(self.query(h), t)
        k = self.split(self.key(h), t)
        v = self.split(self.value(h), t)

        step = ops.arange(t)
        lag = step[:, None] - step[None, :]
        bias = ops.take(self.lag_bias, ops.clip(lag, 0, self.max_lag), axis=1)

        logits = ops.einsum("bhtd,bhsd->bhts", q, k) * self.head_dim ** -0.5 + bias[None]
        logits = ops.where(lag[None, None] >= 0, logits, -1e9)
        weights = ops.softmax(logits, axis=-1)
        mixed = ops.einsum("bhts,bhsd->bthd", weights, v)
        mixed = ops.reshape(mixed, (-1, t, self.channels))
        return frames + self.project(mixed)

    def get_config(self):
        return {**super().get_config(), "channels": self.channels, "heads": self.heads, "max_lag": self.max_lag}


def build_nowcaster(time=8, channels=16, depth=2):
    inp = keras.Input((time, channels))
    x = inp
    for _ in range(depth):
        x = RadarFrameMixer(channels)(x)
    return keras.Model(inp, keras.layers.Dense(channels)(x[:, -1]))

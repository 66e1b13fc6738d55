"""Demand model: hourly series, each step looks at the last `window` hours (itself included)."""
import math

import keras
from keras import layers, ops


@keras.saving.register_keras_serializable(package="demand")
class RecentHoursAttention(layers.Layer):
    """Causal self-attention limited to the `window` newest steps.

    window=1 means that a step sees nothing but itself.
    """

    def __init__(self, num_heads, key_dim, window, **kwargs):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.window = window

    def build(self, input_shape):
        features = input_shape[-1]
        shape = (features, self.num_heads, self.key_dim)
        self.wq = self.add_weight(name="wq", shape=shape, initializer="glorot_uniform")
        self.wk = self.add_weight(name="wk", shape=shape, initializer="glorot_uniform")
        self.wv = self.add_weight(name="wv", shape=shape, initializer="glorot_uniform")
        self.wo = self.add_weight(name="wo", shape=(self.num_heads, self.key_dim, features), initializer="glorot_uniform")
        self.built = True

    def call(self, x):
        steps = ops.shape(x)[1]
        q = ops.einsum("btf,fhd->bthd", x, self.wq)
        k = ops.einsum("btf,fhd->bthd", x, self.wk)
        v = ops.einsum("btf,fhd->bthd", x, self.wv)
        scores = ops.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(self.key_dim)

        i = ops.expand_dims(ops.arange(steps), 1)
        j = ops.expand_dims(ops.arange(steps), 0)
        visible = ops.logical_and(j <= i, i - j < self.window)
        scores = ops.where(visible, scores, -1e9)
        weights = ops.softmax(scores, axis=-1)
        y = ops.einsum("bhqk,bkhd->bqhd", weights, v)
        return ops.einsum("bqhd,hdf->bqf", y, self.wo)

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        cfg = super().get_config()
        cfg.update(num_heads=self.num_heads, key_dim=self.key_dim, window=self.window)
        return cfg


def calendar_features(hour_of_week):
    """[B, T] integer hours since Monday 00:00 -> [B, T, 4]"""
    h = ops.cast(hour_of_week, "float32")
    day, week = 2 * math.pi * h / 24.0, 2 * math.pi * h / 168.0
    return ops.stack([ops.sin(day), ops.cos(day), ops.sin(week), ops.cos(week)], axis=-1)


def build_model(steps=None, n_series=1, width=32, heads=4, window=48, blocks=2, quantiles=(0.1, 0.5, 0.9)):
    load = keras.Input((steps, n_series), name="load")
    calendar = keras.Input((steps, 4), name="calendar")
    x = layers.Dense(width)(layers.Concatenate()([load, calendar]))
    for n in range(blocks):
        y = layers.LayerNormalization(name=f"norm_a{n}")(x)
        x = layers.Add()([x, RecentHoursAttention(heads, width // heads, window, name=f"attn{n}")(y)])
        y = layers.LayerNormalization(name=f"norm_b{n}")(x)
        y = layers.Dense(2 * width, activation="gelu")(y)
        x = layers.Add()([x, layers.Dense(width)(y)])
    out = layers.Dense(len(quantiles), name="quantiles")(x)
    return keras.Model([load, calendar], out)


def pinball(quantiles):
    qs = ops.convert_to_tensor(quantiles)

    def loss(y_true, y_pred):
        e = y_true - y_pred
        return ops.mean(ops.maximum(qs * e, (qs - 1.0) * e))

    return loss

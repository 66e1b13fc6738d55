"""Arrhythmia detection on 12-lead ECG, Keras 3."""
import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
from keras import layers, ops


def bandpass_like(x):
    """Removes the baseline; x [B, T, 12]."""
    return x - ops.mean(x, axis=1, keepdims=True)


class BeatAttention(layers.Layer):
    """Multi-head self-attention over the beats, [B, T, C] -> [B, T, C]."""

    def __init__(self, num_heads, dim, **kwargs):
        super().__init__(**kwargs)
        if dim % num_heads:
            raise ValueError("dim must be divisible by num_heads")
        self.num_heads = num_heads
        self.dim = dim
        self.head_dim = dim // num_heads
        self.query = layers.Dense(dim)
        self.key_ = layers.Dense(dim)
        self.value = layers.Dense(dim)
        self.out = layers.Dense(dim)

    def split_heads(self, x, steps):
        # (batch, heads, steps, head_dim)
        return ops.reshape(x, (-1, self.num_heads, steps, self.head_dim))

    def call(self, x):
        steps = ops.shape(x)[1]
        q = self.split_heads(self.query(x), steps)
        k = self.split_heads(self.key_(x), steps)
        v = self.split_heads(self.value(x), steps)
        score = ops.einsum("bhqd,bhkd->bhqk", q, k) / self.head_dim ** 0.5
        weights = ops.softmax(score, axis=-1)
        y = ops.einsum("bhqk,bhkd->bhqd", weights, v)
        y = ops.reshape(ops.transpose(y, (0, 2, 1, 3)), (-1, steps, self.dim))
        return self.out(y)


class EncoderBlock(layers.Layer):
    def __init__(self, num_heads, dim, ff, rate=0.1, **kwargs):
        super().__init__(**kwargs)
        self.att = BeatAttention(num_heads, dim)
        self.ffn = keras.Sequential([layers.Dense(ff, activation="gelu"), layers.Dense(dim)])
        self.n1 = layers.LayerNormalization(epsilon=1e-6)
        self.n2 = layers.LayerNormalization(epsilon=1e-6)
        self.d1 = layers.Dropout(rate)
        self.d2 = layers.Dropout(rate)

    def call(self, x, training=False):
        x = self.n1(x + self.d1(self.att(x), training=training))
        return self.n2(x + self.d2(self.ffn(x), training=training))


def build_model(length=1000, leads=12, dim=64, heads=4, blocks=2, classes=5):
    inp = keras.Input((length, leads))
    x = layers.Lambda(bandpass_like)(inp)
    for f in (32, dim):
        x = layers.Conv1D(f, 7, strides=5, padding="same", activation="relu")(x)
    pos = layers.Embedding(length // 25, dim)(ops.arange(length // 25))
    x = x + pos
    for _ in range(blocks):
        x = EncoderBlock(heads, dim, 2 * dim)(x)
    x = layers.GlobalAveragePooling1D()(x)
    return keras.Model(inp, layers.Dense(classes, activation="sigmoid")(x))

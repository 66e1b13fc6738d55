"""ViT-style encoder block written with keras.ops (torch backend)."""
import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
from keras import layers, ops


class PatchAttention(layers.Layer):
    """x: (B, N, dim) -> (B, N, dim); regularised by attention dropout while training."""

    def __init__(self, dim, heads, rate=0.1, **kw):
        super().__init__(**kw)
        self.dim, self.heads, self.rate = dim, heads, rate
        self.qkv = layers.Dense(3 * dim)
        self.proj = layers.Dense(dim)
        self.proj_drop = layers.Dropout(rate)
        self.seed_gen = keras.random.SeedGenerator(7)

    def call(self, x, training=None):
        B, N = ops.shape(x)[0], ops.shape(x)[1]
        d = self.dim // self.heads
        qkv = ops.reshape(self.qkv(x), (B, N, 3, self.heads, d))
        q, k, v = ops.unstack(ops.transpose(qkv, (2, 0, 3, 1, 4)), axis=0)
        attn = ops.matmul(q, ops.swapaxes(k, -1, -2)) * (d ** -0.5)
        attn = ops.softmax(attn, axis=-1)
        if self.rate > 0:
            attn = keras.random.dropout(attn, self.rate, seed=self.seed_gen)
        out = ops.transpose(ops.matmul(attn, v), (0, 2, 1, 3))
        out = self.proj(ops.reshape(out, (B, N, self.dim)))
        return self.proj_drop(out, training=training)


class ViTBlock(keras.Model):
    """patches (B, N, dim) -> (B, N, dim)"""

    def __init__(self, dim=16, heads=4, rate=0.1, **kw):
        super().__init__(**kw)
        self.ln1 = layers.LayerNormalization(epsilon=1e-6)
        self.attn = PatchAttention(dim, heads, rate)
        self.ln2 = layers.LayerNormalization(epsilon=1e-6)
        self.fc1 = layers.Dense(4 * dim, activation="gelu")
        self.fc2 = layers.Dense(dim)
        self.drop = layers.Dropout(rate)

    def call(self, x, training=None):
        x = x + self.attn(self.ln1(x), training=training)
        y = self.fc2(self.fc1(self.ln2(x)))
        return x + self.drop(y, training=training)

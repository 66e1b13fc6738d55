"""Arrhythmia classifier over the beats of a Holter record (Keras 3, any backend)."""
import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
from keras import layers, ops


@keras.saving.register_keras_serializable("holter")
class BeatSelfAttention(layers.Layer):
    """Multi-head self-attention over beats.

    The mask that comes with the inputs (``Masking``/``Embedding`` convention) is
    ``[batch, beats]``, True = real beat. Masked beats are never attended.
    """

    def __init__(self, num_heads=4, key_dim=16, dropout=0.1, **kwargs):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.rate = dropout
        self.supports_masking = True
        self.drop = layers.Dropout(dropout)

    def build(self, shape):
        d, h, k = shape[-1], self.num_heads, self.key_dim
        self.wq = self.add_weight(name="wq", shape=(d, h, k), initializer="glorot_uniform")
        self.wk = self.add_weight(name="wk", shape=(d, h, k), initializer="glorot_uniform")
        self.wv = self.add_weight(name="wv", shape=(d, h, k), initializer="glorot_uniform")
        self.wo = self.add_weight(name="wo", shape=(h, k, d), initializer="glorot_uniform")
        self.bo = self.add_weight(name="bo", shape=(d,), initializer="zeros")
        super().build(shape)

    def call(self, x, mask=None, training=None, return_weights=False):
        q = ops.einsum("btd,dhk->bhtk", x, self.wq)
        k = ops.einsum("btd,dhk->bhtk", x, self.wk)
        v = ops.einsum("btd,dhk->bhtk", x, self.wv)
        logits = ops.einsum("bhtk,bhsk->bhts", q, k) / (self.key_dim ** 0.5)
        if mask is not None:
            hide = ops.logical_not(ops.cast(mask, "bool"))[:, None, None, :]
            logits = ops.where(hide, ops.cast(-1e9, logits.dtype), logits)
        weights = ops.softmax(logits, axis=-1)
        y = ops.einsum("bhts,bhsk->bhtk", self.drop(weights, training=training), v)
        y = ops.einsum("bhtk,hkd->btd", y, self.wo) + self.bo
        return (y, weights) if return_weights else y

    def get_config(self):
        return {**super().get_config(), "num_heads": self.num_heads, "key_dim": self.key_dim, "dropout": self.rate}


class BeatEncoder(layers.Layer):
    """one beat = 180 samples x 2 leads -> vector"""

    def __init__(self, dim=64, **kwargs):
        super().__init__(**kwargs)
        self.stack = keras.Sequential([
            layers.Conv1D(32, 7, strides=2, padding="same", activation="relu"),
            layers.Conv1D(64, 5, strides=2, padding="same", activation="relu"),
            layers.GlobalAveragePooling1D(),
            layers.Dense(dim),
        ])

    def build(self, shape):
        self.stack.build(shape)
        super().build(shape)

    def call(self, x):
        return self.stack(x)


class HolterModel(keras.Model):
    def __init__(self, dim=64, heads=4, blocks=2, classes=5, **kwargs):
        super().__init__(**kwargs)
        self.encoder = layers.TimeDistributed(BeatEncoder(dim))
        self.attn = [BeatSelfAttention(heads, dim // heads) for _ in range(blocks)]
        self.norm = [layers.LayerNormalization() for _ in range(blocks)]
        self.ff = [keras.Sequential([layers.Dense(2 * dim, activation="gelu"), layers.Dense(dim)])
                   for _ in range(blocks)]
        self.norm_ff = [layers.LayerNormalization() for _ in range(blocks)]
        self.head = layers.Dense(classes)

    def call(self, beats, beat_mask=None, training=None):
        x = self.encoder(beats)
        for a, n, f, nf in zip(self.attn, self.norm, self.ff, self.norm_ff):
            x = x + a(n(x), mask=beat_mask, training=training)
            x = x + f(nf(x))
        return self.head(x)

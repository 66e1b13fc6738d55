"""Card fraud: transformer over the last transactions of a customer (Keras 3).

Histories are right padded.  The mask is (batch, steps), True = real transaction,
and no transaction may look at a padded one.  Outputs at padded steps are unused.
"""
import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
from keras import layers, ops

NEG = -1e9


class TransactionAttention(layers.Layer):
    def __init__(self, num_heads=4, key_dim=8, dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        self.num_heads, self.key_dim = num_heads, key_dim
        self.drop = layers.Dropout(dropout)
        self.supports_masking = True

    def build(self, input_shape):
        inner = self.num_heads * self.key_dim
        self.wq = layers.Dense(inner, name="query")
        self.wk = layers.Dense(inner, name="key")
        self.wv = layers.Dense(inner, name="value")
        self.wo = layers.Dense(input_shape[-1], name="out")
        for d in (self.wq, self.wk, self.wv):
            d.build(input_shape)
        self.wo.build((*input_shape[:-1], inner))

    def _split(self, x):
        b, t = ops.shape(x)[0], ops.shape(x)[1]
        x = ops.reshape(x, (b, t, self.num_heads, self.key_dim))
        return ops.transpose(x, (0, 2, 1, 3))

    def call(self, x, mask=None, training=False):
        q, k, v = self._split(self.wq(x)), self._split(self.wk(x)), self._split(self.wv(x))
        scores = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) / self.key_dim ** 0.5
        if mask is not None:
            m = ops.cast(mask, scores.dtype)
            m = ops.expand_dims(ops.expand_dims(m, 1), 3)
            scores = scores + (1.0 - m) * NEG
        w = self.drop(ops.softmax(scores, axis=-1), training=training)
        o = ops.transpose(ops.matmul(w, v), (0, 2, 1, 3))
        o = ops.reshape(o, (ops.shape(x)[0], ops.shape(x)[1], self.num_heads * self.key_dim))
        return self.wo(o)


class FraudBlock(layers.Layer):
    def __init__(self, width=32, **kwargs):
        super().__init__(**kwargs)
        self.attn = TransactionAttention()
        self.n1, self.n2 = layers.LayerNormalization(), layers.LayerNormalization()
        self.f1, self.f2 = layers.Dense(2 * width, activation="relu"), layers.Dense(width)
        self.supports_masking = True

    def call(self, x, mask=None, training=False):
        x = x + self.attn(self.n1(x), mask=mask, training=training)
        return x + self.f2(self.f1(self.n2(x)))


def build_model(steps=16, features=10, width=32):
    inp = keras.Input((steps, features))
    msk = keras.Input((steps,), dtype="bool")
    x = layers.Dense(width)(inp)
    x = FraudBlock(width)(x, mask=msk)
    w = ops.expand_dims(ops.cast(msk, "float32"), -1)
    x = ops.sum(x * w, axis=1) / ops.maximum(ops.sum(w, axis=1), 1.0)
    return keras.Model([inp, msk], layers.Dense(1, activation="sigmoid")(x))

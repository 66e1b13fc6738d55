"""Keras 3: readmission risk from the sequence of a patient's hospital events (MIMIC style)."""
import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
from keras import layers, ops

MAX_EVENTS = 64
N_CODES = 900


@keras.saving.register_keras_serializable(package="ehr")
class EventSelfAttention(layers.Layer):
    """Multi-head self-attention over events.

    Call arguments:
        x: (batch, events, dim)
        padding_mask: (batch, events), True for real events, False for padding. No event
            attends to padding; rows of padding are ignored by the pooling that follows.
    """

    def __init__(self, num_heads=4, dim=64, rate=0.1, **kwargs):
        super().__init__(**kwargs)
        if dim % num_heads:
            raise ValueError("dim must be divisible by num_heads")
        self.num_heads, self.dim, self.rate = num_heads, dim, rate
        self.depth = dim // num_heads
        self.wq = layers.Dense(dim)
        self.wk = layers.Dense(dim)
        self.wv = layers.Dense(dim)
        self.wo = layers.Dense(dim)
        self.drop = layers.Dropout(rate)

    def split_heads(self, x):
        b, n = ops.shape(x)[0], ops.shape(x)[1]
        return ops.transpose(ops.reshape(x, (b, n, self.num_heads, self.depth)), (0, 2, 1, 3))

    def call(self, x, padding_mask=None, training=None):
        q = self.split_heads(self.wq(x))
        k = self.split_heads(self.wk(x))
        v = self.split_heads(self.wv(x))

        logits = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2)))
        logits = logits / ops.sqrt(ops.cast(self.depth, logits.dtype))
        if padding_mask is not None:
            pad = 1.0 - ops.cast(padding_mask, logits.dtype)
            logits = logits + pad[:, None, :, None] * -1e9
        weights = self.drop(ops.softmax(logits, axis=-1), training=training)

        out = ops.transpose(ops.matmul(weights, v), (0, 2, 1, 3))
        return self.wo(ops.reshape(out, (ops.shape(x)[0], ops.shape(x)[1], self.dim)))

    def get_config(self):
        return {**super().get_config(), "num_heads": self.num_heads, "dim": self.dim, "rate": self.rate}


class MaskedMean(layers.Layer):
    def call(self, x, padding_mask):
        m = ops.cast(padding_mask, x.dtype)[..., None]
        return ops.sum(x * m, axis=1) / ops.maximum(ops.sum(m, axis=1), 1.0)


def build_model(dim=64):
    codes = keras.Input((MAX_EVENTS,), dtype="int32", name="codes")
    days = keras.Input((MAX_EVENTS, 1), name="days_before")
    mask = layers.Lambda(lambda c: ops.not_equal(c, 0))(codes)
    x = layers.Embedding(N_CODES, dim)(codes) + layers.Dense(dim, activation="tanh")(days)
    a = EventSelfAttention(4, dim)(x, padding_mask=mask)
    x = layers.LayerNormalization()(x + a)
    x = MaskedMean()(x, mask)
    out = layers.Dense(1, activation="sigmoid")(layers.Dense(32, activation="relu")(x))
    model = keras.Model([codes, days], out)
    model.compile("adam", "binary_crossentropy", metrics=["auc"])
    return model


if __name__ == "__main__":
    build_model().summary()

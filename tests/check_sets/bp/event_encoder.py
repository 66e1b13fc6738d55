"""Churn prediction from customer event logs with Keras 3 (script version of the notebook)."""
import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np
from keras import layers, ops

EVENTS = ["login", "view", "cart", "buy", "return", "ticket", "unsubscribe"]


def position_table(length, depth):
    """PE[pos, 2i] = sin(pos / 10000^(2i/depth)), PE[pos, 2i+1] = cos of the same angle."""
    table = np.zeros((length, depth))
    pos = np.arange(length)
    for i in range(0, depth, 2):
        angle = pos / np.power(10000.0, 2 * i / depth)
        table[:, i] = np.sin(angle)
        table[:, i + 1] = np.cos(angle)
    return table.astype("float32")


class EventEncoder(layers.Layer):
    """Adds positions, then one bidirectional multi-head self-attention with residual.

    call(x, mask): x (batch, events, dim), mask (batch, events) bool, True = event exists.
    Head h works on the features h*key_dim ... (h+1)*key_dim - 1 of the projections.
    """

    def __init__(self, dim=32, num_heads=4, max_events=64, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.dim = dim
        self.num_heads = num_heads
        self.key_dim = dim // num_heads
        self.table = position_table(max_events, dim)
        self.wq = layers.Dense(dim)
        self.wk = layers.Dense(dim)
        self.wv = layers.Dense(dim)
        self.wo = layers.Dense(dim)
        self.norm = layers.LayerNormalization(epsilon=1e-6)

    def split(self, t):
        batch, n = ops.shape(t)[0], ops.shape(t)[1]
        return ops.reshape(t, (batch, self.num_heads, n, self.key_dim))

    def call(self, x, mask=None):
        n = ops.shape(x)[1]
        x = x + ops.convert_to_tensor(self.table[:n])
        q, k, v = self.split(self.wq(x)), self.split(self.wk(x)), self.split(self.wv(x))
        logits = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) * self.key_dim ** -0.5
        if mask is not None:
            gone = 1.0 - ops.cast(mask, logits.dtype)
            logits = logits - 1e9 * gone[:, None, None, :]
        w = ops.softmax(logits, axis=-1)
        y = ops.transpose(ops.matmul(w, v), (0, 2, 1, 3))
        y = ops.reshape(y, (ops.shape(x)[0], n, self.dim))
        return self.norm(x + self.wo(y))


def build_model(max_events=64, dim=32):
    ids = keras.Input((max_events,), dtype="int32")
    emb = layers.Embedding(len(EVENTS) + 1, dim, mask_zero=True)
    x = EventEncoder(dim, max_events=max_events)(emb(ids), mask=ops.not_equal(ids, 0))
    x = layers.GlobalAveragePooling1D()(x)
    out = layers.Dense(1, activation="sigmoid")(x)
    model = keras.Model(ids, out)
    model.compile("adam", "binary_crossentropy", metrics=["AUC"])
    return model


if __name__ == "__main__":
    layer = EventEncoder()
    print(layer(np.random.rand(2, 10, 32).astype("float32")).shape)

"""Field tagger for invoices (total, VAT id, date ...). Keras 3, any backend."""
import math

import keras
import numpy as np
from keras import layers, ops

FIELDS = ["O", "TOTAL", "VAT_ID", "DATE", "IBAN", "SUPPLIER"]


def sinusoid_table(max_len, d_model):
    """Transformer encoding: table[p, 2i] = sin(p / 10000^(2i/d)), table[p, 2i+1] = cos(same angle)."""
    table = np.zeros((max_len, d_model), dtype="float32")
    pos = np.arange(max_len)
    for i in range(0, d_model, 2):
        angle = pos / np.power(10000.0, (2 * i) / d_model)
        table[:, i] = np.sin(angle)
        table[:, i + 1] = np.cos(angle)
    return table


@keras.saving.register_keras_serializable(package="invoice")
class TokenContext(layers.Layer):
    """Adds the sinusoid table and runs multi-head self-attention over the tokens of a page.

    Call arguments: x [batch, tokens, d_model] and present [batch, tokens] (bool, False for
    the padding at the end of a page). Padding tokens are never attended to.
    """

    def __init__(self, d_model, num_heads, max_len=512, dropout=0.1, **kwargs):
        super().__init__(**kwargs)
        self.d_model, self.num_heads, self.max_len, self.rate = d_model, num_heads, max_len, dropout
        self.depth = d_model // num_heads
        self.wq = layers.Dense(d_model, name="wq")
        self.wk = layers.Dense(d_model, name="wk")
        self.wv = layers.Dense(d_model, name="wv")
        self.wo = layers.Dense(d_model, name="wo")
        self.drop = layers.Dropout(dropout)
        self.norm = layers.LayerNormalization(epsilon=1e-6)
        self.table = sinusoid_table(max_len, d_model)

    def build(self, x_shape, present_shape=None):
        for d in (self.wq, self.wk, self.wv, self.wo):
            d.build(x_shape)
        self.norm.build(x_shape)
        self.built = True

    def _heads(self, t):
        b, n = ops.shape(t)[0], ops.shape(t)[1]
        return ops.transpose(ops.reshape(t, (b, n, self.num_heads, self.depth)), (0, 2, 1, 3))

    def call(self, x, present=None, training=False):
        n = ops.shape(x)[1]
        x = x + ops.convert_to_tensor(self.table)[:n]
        q, k, v = self._heads(self.wq(x)), self._heads(self.wk(x)), self._heads(self.wv(x))
        scores = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) / math.sqrt(self.depth)
        if present is not None:
            keep = ops.cast(present, "bool")[:, None, :, None]
            scores = ops.where(keep, scores, -1e9)
        weights = self.drop(ops.softmax(scores, axis=-1), training=training)
        y = ops.transpose(ops.matmul(weights, v), (0, 2, 1, 3))
        y = ops.reshape(y, (ops.shape(x)[0], n, self.d_model))
        return self.norm(x + self.wo(y))

    def compute_output_shape(self, x_shape, present_shape=None):
        return x_shape

    def get_config(self):
        return {**super().get_config(), "d_model": self.d_model, "num_heads": self.num_heads,
                "max_len": self.max_len, "dropout": self.rate}


def build_tagger(vocab=5000, d_model=64, heads=4, depth=2):
    ids = keras.Input((None,), dtype="int32", name="ids")
    boxes = keras.Input((None, 4), name="boxes")
    present = keras.Input((None,), dtype="bool", name="present")
    x = layers.Embedding(vocab, d_model)(ids)
    x = layers.Add()([x, layers.Dense(d_model)(boxes)])
    for i in range(depth):
        x = TokenContext(d_model, heads, name=f"context{i}")(x, present=present)
        h = layers.Dense(2 * d_model, activation="gelu")(x)
        x = layers.LayerNormalization()(layers.Add()([x, layers.Dense(d_model)(h)]))
    return keras.Model([ids, boxes, present], layers.Dense(len(FIELDS))(x))


def decode_spans(labels):
    """[0, 1, 1, 0, 3] -> [("TOTAL", 1, 3), ("DATE", 4, 5)]"""
    spans, start = [], None
    for i, lab in enumerate(list(labels) + [0]):
        if start is not None and (lab != labels[start]):
            spans.append((FIELDS[labels[start]], start, i))
            start = None
        if lab != 0 and start is None and i < len(labels):
            start = i
    return spans

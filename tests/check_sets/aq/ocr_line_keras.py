"""Line recogniser, Keras 3: convolutional features of a text line, character decoder on top."""
import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
from keras import layers, ops


@keras.saving.register_keras_serializable("ocr")
class LineCrossAttention(layers.Layer):
    """Characters (queries) look at the columns of the line image.

    call(chars [B, T, C], columns [B, W, C], column_mask [B, W] with True = ink area).
    Every line has at least one column of ink area.
    """

    def __init__(self, num_heads, head_dim, dropout=0.0, **kw):
        super().__init__(**kw)
        self.num_heads = num_heads
        self.head_dim = head_dim
        self.rate = dropout
        inner = num_heads * head_dim
        self.wq = layers.Dense(inner, use_bias=False, name="wq")
        self.wk = layers.Dense(inner, use_bias=False, name="wk")
        self.wv = layers.Dense(inner, use_bias=False, name="wv")
        self.drop = layers.Dropout(dropout)

    def build(self, chars_shape, columns_shape=None, column_mask_shape=None):
        columns_shape = columns_shape or chars_shape
        self.wq.build(chars_shape)
        self.wk.build(columns_shape)
        self.wv.build(columns_shape)
        self.wo = layers.Dense(chars_shape[-1], name="wo")
        self.wo.build(tuple(chars_shape[:-1]) + (self.num_heads * self.head_dim,))
        self.built = True

    def heads(self, x):
        n = ops.shape(x)[1]
        return ops.transpose(ops.reshape(x, (-1, n, self.num_heads, self.head_dim)), (0, 2, 1, 3))

    def call(self, chars, columns, column_mask=None, training=None):
        q = self.heads(self.wq(chars))
        k = self.heads(self.wk(columns))
        v = self.heads(self.wv(columns))
        logits = ops.matmul(q, ops.swapaxes(k, -1, -2)) * (self.head_dim ** -0.5)
        if column_mask is not None:
            keep = ops.cast(column_mask, "bool")[:, None, None, :]
            logits = ops.where(keep, logits, float("-inf"))
        probs = self.drop(ops.softmax(logits, axis=-1), training=training)
        out = ops.transpose(ops.matmul(probs, v), (0, 2, 1, 3))
        out = ops.reshape(out, (-1, ops.shape(chars)[1], self.num_heads * self.head_dim))
        return self.wo(out)

    def get_config(self):
        cfg = super().get_config()
        cfg.update(num_heads=self.num_heads, head_dim=self.head_dim, dropout=self.rate)
        return cfg


def line_encoder(height=32, channels=64):
    img = keras.Input((height, None, 1))
    x = img
    for c in (16, 32):
        x = layers.Conv2D(c, 3, padding="same", activation="relu")(x)
        x = layers.MaxPooling2D(2)(x)
    x = layers.Conv2D(channels, (height // 4, 1), activation="relu")(x)
    return keras.Model(img, ops.squeeze(x, axis=1))


def greedy_text(ids, charset, eos=0):
    out = []
    for i in ids:
        if i == eos:
            break
        out.append(charset[i - 1])
    return "".join(out)

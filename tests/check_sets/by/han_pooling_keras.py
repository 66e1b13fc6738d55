"""Lecture 9 (document classification): the word-level pooling of HAN in Keras 3.

Yang et al. 2016: u_t = tanh(W h_t + b), a_t = softmax_t(u_t . u_w), s = sum_t a_t h_t.
Padding is given as the usual Keras mask (True = a real word).
"""
import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
from keras import layers, ops


class WordAttentionPooling(layers.Layer):
    def __init__(self, units=16, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.supports_masking = True

    def build(self, input_shape):
        width = input_shape[-1]
        self.kernel = self.add_weight(
            name="kernel", shape=(width, self.units), initializer="glorot_uniform"
        )
        self.bias = self.add_weight(name="bias", shape=(self.units,), initializer="zeros")
        self.context = self.add_weight(
            name="context", shape=(self.units,), initializer="random_normal"
        )

    def call(self, h, mask=None):
        # h: (batch, words, width) -> (batch, width)
        u = ops.tanh(ops.matmul(h, self.kernel) + self.bias)
        logits = ops.sum(u * self.context, axis=-1)
        if mask is not None:
            logits = ops.where(ops.cast(mask, "bool"), logits, -1e9)
        alpha = ops.softmax(logits, axis=-1)
        return ops.sum(ops.expand_dims(alpha, -1) * h, axis=1)

    def compute_mask(self, inputs, mask=None):
        return None

    def compute_output_shape(self, input_shape):
        return (input_shape[0], input_shape[-1])

    def get_config(self):
        return {**super().get_config(), "units": self.units}


def build_classifier(vocab=200, width=24, classes=5):
    tokens = keras.Input((None,), dtype="int32")
    x = layers.Embedding(vocab, width, mask_zero=True)(tokens)
    x = layers.Bidirectional(layers.GRU(width // 2, return_sequences=True))(x)
    x = WordAttentionPooling(16)(x)
    return keras.Model(tokens, layers.Dense(classes, activation="softmax")(x))

"""Keras layer: attend over all LSTM states with the last one as the query.

A small helper for time series classification notebooks.  For states h_1..h_T
and query q = h_T W:  a = softmax_t(q . h_t / sqrt(width)), context = sum a_t h_t,
output = tanh(W_c [context; h_T]).  Optional boolean `mask` (True = use the step).
"""
import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
from keras import ops


class LastStateAttention(keras.layers.Layer):
    def __init__(self, units=8, return_attention=False, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.return_attention = return_attention

    def build(self, input_shape):
        self.width = int(input_shape[-1])
        self.query_kernel = self.add_weight(
            shape=(self.width, self.width), initializer="glorot_uniform", name="query_kernel"
        )
        self.out_kernel = self.add_weight(
            shape=(2 * self.width, self.units), initializer="glorot_uniform", name="out_kernel"
        )

    def call(self, states, mask=None):
        last = states[:, -1]                                   # (batch, width)
        query = ops.matmul(last, self.query_kernel)
        score = ops.einsum("btw,bw->bt", states, query) / self.width**0.5
        a = ops.exp(score)
        if mask is not None:
            a = a * ops.cast(mask, a.dtype)
        a = a / ops.sum(a, axis=1, keepdims=True)
        context = ops.einsum("bt,btw->bw", a, states)
        out = ops.tanh(ops.matmul(ops.concatenate([context, last], axis=-1), self.out_kernel))
        if self.return_attention:
            return out, a
        return out

    def get_config(self):
        config = super().get_config()
        config.update(units=self.units, return_attention=self.return_attention)
        return config


def make_model(steps=20, features=3, classes=2):
    x = inp = keras.Input((steps, features))
    x = keras.layers.LSTM(16, return_sequences=True)(x)
    x = LastStateAttention(8)(x)
    return keras.Model(inp, keras.layers.Dense(classes)(x))

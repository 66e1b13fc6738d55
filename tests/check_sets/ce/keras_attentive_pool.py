"""Attentive pooling of a variable-length time series, as a Keras layer.

For the "predictive maintenance" notebook: a Conv1D stack turns the vibration
signal into frames and this layer summarises the frames of one machine in a
fixed vector. There are `heads` pooling heads; head h scores frame t with

    s_th = v_h . tanh(W_h x_t + b_h),   a_h = softmax over the valid frames

and the heads' weighted sums are concatenated to (batch, heads * features).
`mask` (batch, time) is Keras' own convention: True = keep. If not a single frame
of an example is valid its summary is zero.
"""
import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
from keras import ops


class AttentivePooling(keras.layers.Layer):
    def __init__(self, heads=2, units=16, return_weights=False, **kwargs):
        super().__init__(**kwargs)
        self.heads = heads
        self.units = units
        self.return_weights = return_weights
        self.supports_masking = True

    def build(self, shape):
        features = shape[-1]
        self.kernel = self.add_weight(name="kernel", shape=(features, self.heads, self.units),
                                      initializer="glorot_uniform")
        self.bias = self.add_weight(name="bias", shape=(self.heads, self.units),
                                    initializer="zeros")
        self.context = self.add_weight(name="context", shape=(self.heads, self.units),
                                       initializer="glorot_uniform")

    def compute_mask(self, inputs, mask=None):
        return None

    def call(self, inputs, mask=None):
        hidden = ops.tanh(ops.einsum("btf,fhu->bthu", inputs, self.kernel) + self.bias)
        scores = ops.einsum("bthu,hu->bth", hidden, self.context)
        if mask is not None:
            keep = ops.expand_dims(ops.cast(mask, "bool"), -1)
            scores = ops.where(keep, scores, -1e9)
        scores = scores - ops.max(scores, axis=1, keepdims=True)
        unnorm = ops.exp(scores)
        if mask is not None:
            unnorm = unnorm * ops.cast(keep, unnorm.dtype)
        weights = unnorm / (ops.sum(unnorm, axis=1, keepdims=True) + 1e-12)   # over time
        pooled = ops.einsum("bth,btf->bhf", weights, inputs)
        pooled = ops.reshape(pooled, (ops.shape(inputs)[0], self.heads * inputs.shape[-1]))
        if self.return_weights:
            return pooled, weights
        return pooled

    def get_config(self):
        return {**super().get_config(), "heads": self.heads, "units": self.units,
                "return_weights": self.return_weights}


def build_model(n_channels=3, n_classes=4):
    x = inp = keras.Input((None, n_channels))
    x = keras.layers.Conv1D(12, 5, padding="same", activation="relu")(x)
    x = AttentivePooling(heads=3)(x)
    return keras.Model(inp, keras.layers.Dense(n_classes, activation="softmax")(x))

"""Gated attention pooling over the frames of a clip (Ilse et al., MIL).

    a_t = softmax_t( w . (tanh(V x_t) * sigmoid(U x_t)) )
    z   = sum_t a_t x_t

There is no query: what is looked for is learned in w.  ``n_branches`` such
poolings run side by side and their results are concatenated.  A boolean mask
(True = frame exists) may come from an upstream Masking layer.
"""
import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
from keras import layers, ops


class GatedFramePooling(layers.Layer):
    def __init__(self, hidden=32, n_branches=2, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.hidden = hidden
        self.n_branches = n_branches
        self.v = layers.Dense(hidden, activation="tanh")
        self.u = layers.Dense(hidden, activation="sigmoid")
        self.w = layers.Dense(n_branches)

    def build(self, input_shape):
        self.v.build(input_shape)
        self.u.build(input_shape)
        self.w.build(tuple(input_shape[:-1]) + (self.hidden,))
        self.built = True

    def compute_mask(self, inputs, mask=None):
        return None

    def compute_output_shape(self, input_shape):
        return (input_shape[0], self.n_branches * input_shape[-1])

    def frame_weights(self, x, mask=None):
        """(batch, time, features) -> (batch, branches, time), each row sums to 1."""
        s = self.w(self.v(x) * self.u(x))
        s = ops.transpose(s, (0, 2, 1))
        if mask is not None:
            keep = ops.expand_dims(ops.cast(mask, "bool"), 1)
            s = ops.where(keep, s, ops.full_like(s, -1e9))
        return ops.softmax(s, axis=-1)

    def call(self, inputs, mask=None):
        a = self.frame_weights(inputs, mask)
        z = ops.matmul(a, inputs)
        return ops.reshape(z, (-1, self.n_branches * inputs.shape[-1]))

    def get_config(self):
        return {**super().get_config(), "hidden": self.hidden,
                "n_branches": self.n_branches}


def build_clip_classifier(frame_dim=24, n_classes=5):
    clip = keras.Input((None, frame_dim))
    x = layers.Masking()(clip)
    x = GatedFramePooling()(x)
    return keras.Model(clip, layers.Dense(n_classes)(x))

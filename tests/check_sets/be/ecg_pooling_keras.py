"""Kaggle: arrhythmia classification, attention pooling over beats (Keras 3)."""
import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
from keras import layers, ops


@keras.saving.register_keras_serializable("ecg")
class BeatPooling(layers.Layer):
    """Multi-head additive pooling: a learned query per head asks every beat.

    inputs (batch, beats, channels); mask (batch, beats) with True = real beat.
    output (batch, heads * channels).  A record without a real beat gives zeros.
    """

    def __init__(self, heads=2, units=16, **kw):
        super().__init__(**kw)
        self.heads, self.units = heads, units
        self.supports_masking = True

    def build(self, shape):
        c = shape[-1]
        self.W = self.add_weight(shape=(c, self.units), initializer="glorot_uniform", name="W")
        self.b = self.add_weight(shape=(self.units,), initializer="zeros", name="b")
        self.u = self.add_weight(shape=(self.units, self.heads), initializer="glorot_uniform", name="u")

    def call(self, x, mask=None):
        h = ops.tanh(ops.matmul(x, self.W) + self.b)
        e = ops.matmul(h, self.u)  # (batch, beats, heads)
        if mask is not None:
            keep = ops.expand_dims(ops.cast(mask, e.dtype), -1)
            e = ops.where(keep > 0, e, -1e9)
            e = e - ops.max(e, axis=1, keepdims=True)
            w = ops.exp(e) * keep
            w = w / ops.maximum(ops.sum(w, axis=1, keepdims=True), 1e-9)
        else:
            w = ops.softmax(e, axis=1)
        pooled = ops.einsum("bth,btc->bhc", w, x)
        return ops.reshape(pooled, (ops.shape(x)[0], self.heads * x.shape[-1]))

    def compute_mask(self, x, mask=None):
        return None

    def compute_output_shape(self, shape):
        return (shape[0], self.heads * shape[-1])

    def get_config(self):
        return {**super().get_config(), "heads": self.heads, "units": self.units}


def build_model(beat_len=64, n_beats=12, classes=5):
    inp = keras.Input((n_beats, beat_len))
    x = layers.Masking(mask_value=0.0)(inp)
    x = layers.Dense(32, activation="relu")(x)
    x = BeatPooling(heads=2)(x)
    x = layers.Dropout(0.3)(x)
    out = layers.Dense(classes, activation="softmax")(x)
    model = keras.Model(inp, out)
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


if __name__ == "__main__":
    build_model().summary()

import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
from keras import layers, ops


class AttentionPooling(layers.Layer):
    """Weighted mean over time of a sequence of features.

    Input (batch, time, features), output (batch, features). The weight of step t
    is softmax_t(v . tanh(W x_t)). An optional mask (batch, time) is True for the
    steps which count; masked steps get weight zero.
    """

    def __init__(self, units=32, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.supports_masking = True
        self.hidden = layers.Dense(units, activation="tanh")
        self.score = layers.Dense(1, use_bias=False)

    def build(self, input_shape):
        self.hidden.build(input_shape)
        self.score.build((*input_shape[:-1], self.units))
        super().build(input_shape)

    def call(self, x, mask=None):
        e = self.score(self.hidden(x))              # (batch, time, 1)
        if mask is not None:
            keep = ops.expand_dims(ops.cast(mask, "bool"), -1)
            e = ops.where(keep, e, -1e9)
        a = ops.softmax(e, axis=1)
        return ops.sum(a * x, axis=1)

    def compute_mask(self, x, mask=None):
        return None

    def get_config(self):
        return {**super().get_config(), "units": self.units}


def build_classifier(vocab=1000, dim=64, classes=5):
    tokens = keras.Input((None,), dtype="int32")
    h = layers.Embedding(vocab, dim, mask_zero=True)(tokens)
    h = layers.Bidirectional(layers.GRU(dim, return_sequences=True))(h)
    h = AttentionPooling(64)(h)
    return keras.Model(tokens, layers.Dense(classes, activation="softmax")(h))

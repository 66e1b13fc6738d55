"""Gated attention pooling for multiple-instance learning (Ilse, Tomczak, Welling 2018), Keras 3.

    a_k = softmax_k( w^T ( tanh(V h_k) * sigmoid(U h_k) ) )
    z   = sum_k a_k h_k

Bags are padded to one size; `mask` is 1 for patches and 0 for filling.  Used on whole slide
images: a bag is a slide, an instance the embedding of a tile.
"""
import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
from keras import layers, ops


class GatedAttentionPooling(layers.Layer):
    def __init__(self, units=16, return_weights=False, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.return_weights = return_weights
        self.tanh_branch = layers.Dense(units, activation="tanh", use_bias=False)
        self.gate_branch = layers.Dense(units, activation="sigmoid", use_bias=False)
        self.score = layers.Dense(1, use_bias=False)

    def build(self, input_shape):
        self.tanh_branch.build(input_shape)
        self.gate_branch.build(input_shape)
        self.score.build(tuple(input_shape[:-1]) + (self.units,))
        self.built = True

    def call(self, bags, mask=None):
        gated = self.tanh_branch(bags) * self.gate_branch(bags)
        s = self.score(gated)                                   # (batch, instances, 1)
        if mask is not None:
            blank = ops.expand_dims(ops.logical_not(ops.cast(mask, "bool")), -1)
            s = ops.where(blank, ops.full_like(s, -1e9), s)
        a = ops.softmax(s, axis=1)
        z = ops.sum(a * bags, axis=1)
        if self.return_weights:
            return z, ops.squeeze(a, -1)
        return z

    def get_config(self):
        return {**super().get_config(), "units": self.units, "return_weights": self.return_weights}


def build_model(dim=32, units=16):
    bag = keras.Input((None, dim), name="bag")
    mask = keras.Input((None,), name="mask")
    z = GatedAttentionPooling(units)(bag, mask=mask)
    return keras.Model([bag, mask], layers.Dense(1, activation="sigmoid")(z))


if __name__ == "__main__":
    import numpy as np

    m = build_model(8, 4)
    print(m([np.random.rand(2, 5, 8).astype("float32"), np.ones((2, 5), "float32")]))

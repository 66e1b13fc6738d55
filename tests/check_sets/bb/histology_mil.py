"""Gated attention MIL for whole-slide images (Ilse, Tomczak & Welling 2018), Keras 3.

Uma lamina = um saco (bag) de ladrilhos. a_k = softmax_k( w . (tanh(V h_k) * sigm(U h_k)) ).
"""
import os

os.environ.setdefault("KERAS_BACKEND", "torch")
import keras
from keras import layers, ops


@keras.saving.register_keras_serializable("histo")
class GatedMIL(layers.Layer):
    """(bags, tiles, features) -> (bags, features)

    mask: (bags, tiles), True/1 para ladrilhos reais. Um saco vazio devolve zeros.
    """

    def __init__(self, hidden=64, return_attention=False, **kw):
        super().__init__(**kw)
        self.hidden = hidden
        self.return_attention = return_attention
        self.supports_masking = True
        self.V = layers.Dense(hidden, activation="tanh", use_bias=False)
        self.U = layers.Dense(hidden, activation="sigmoid", use_bias=False)
        self.w = layers.Dense(1, use_bias=False)

    def build(self, shape):
        self.V.build(shape)
        self.U.build(shape)
        self.w.build((*shape[:-1], self.hidden))
        self.built = True

    def call(self, h, mask=None):
        logit = self.w(self.V(h) * self.U(h))[..., 0]
        if mask is not None:
            mask = ops.cast(mask, "bool")
            logit = ops.where(mask, logit, -1e9)
        logit = logit - ops.max(logit, axis=1, keepdims=True)
        a = ops.exp(logit)
        if mask is not None:
            a = a * ops.cast(mask, a.dtype)
        a = a / ops.maximum(ops.sum(a, axis=1, keepdims=True), 1e-12)
        z = ops.einsum("bt,btf->bf", a, h)
        return (z, a) if self.return_attention else z

    def compute_mask(self, h, mask=None):
        return None

    def get_config(self):
        return {**super().get_config(), "hidden": self.hidden,
                "return_attention": self.return_attention}


def build_model(features=128, classes=2):
    tiles = keras.Input((None, features))
    real = keras.Input((None,), dtype="bool")
    h = layers.Dense(64, activation="relu")(tiles)
    z = GatedMIL(32, name="mil")(h, mask=real)
    y = layers.Dense(classes, activation="softmax")(z)
    return keras.Model([tiles, real], y)


if __name__ == "__main__":
    build_model().summary()

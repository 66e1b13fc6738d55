"""Keras 3 layer for a grocery recommender: Deep Interest style pooling of past purchases.

The candidate item activates the purchase history. As in the DIN paper the
activation is an MLP on [candidate, item, candidate - item, candidate * item], and the
weights are used WITHOUT softmax by default, to keep the intensity of interest;
`normalize=True` gives a softmax over the history.
"""
import keras
from keras import layers, ops


class InterestPooling(layers.Layer):
    """call([candidate [B, D], history [B, T, D]], mask=bool [B, T], True = purchase).

    Customers without any purchase get a zero vector.
    """

    def __init__(self, hidden=(16, 8), normalize=False, **kw):
        super().__init__(**kw)
        self.hidden = tuple(hidden)
        self.normalize = normalize
        self.mlp = [layers.Dense(h, activation="sigmoid") for h in self.hidden]
        self.score = layers.Dense(1)

    def build(self, input_shape):
        d = input_shape[0][-1]
        shape = (None, None, 4 * d)
        for l in self.mlp:
            l.build(shape)
            shape = (None, None, l.units)
        self.score.build(shape)
        self.built = True

    def activation_weights(self, cand, hist):
        c = ops.broadcast_to(ops.expand_dims(cand, 1), ops.shape(hist))
        x = ops.concatenate([c, hist, c - hist, c * hist], axis=-1)
        for l in self.mlp:
            x = l(x)
        return ops.squeeze(self.score(x), -1)

    def call(self, inputs, mask=None):
        cand, hist = inputs
        a = self.activation_weights(cand, hist)
        if mask is None:
            mask = ops.ones_like(a, dtype="bool")
        elif isinstance(mask, (list, tuple)):
            mask = mask[1]
        if self.normalize:
            a = ops.where(mask, a, ops.full_like(a, -1e30))
            a = ops.softmax(a, axis=-1)
        a = ops.where(mask, a, ops.zeros_like(a))
        return ops.einsum("bt,btd->bd", a, hist)

    def compute_output_shape(self, input_shape):
        return input_shape[0]

    def compute_mask(self, inputs, mask=None):
        return None

    def get_config(self):
        return {**super().get_config(), "hidden": self.hidden, "normalize": self.normalize}


def build_model(n_items, dim=16, steps=20):
    cand = keras.Input((), dtype="int32", name="candidate")
    hist = keras.Input((steps,), dtype="int32", name="history")
    emb = layers.Embedding(n_items, dim)
    e = emb(cand)
    keep = ops.not_equal(hist, 0)
    u = InterestPooling()([e, emb(hist)], mask=[None, keep])
    x = layers.Dense(32, activation="relu")(ops.concatenate([e, u], axis=-1))
    return keras.Model([cand, hist], layers.Dense(1, activation="sigmoid")(x))

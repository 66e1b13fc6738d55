"""Wiederverwendbarer Baustein: Trassenanfragen der Bahn gegen den Fahrplan.

Keras layer that lets each path request (query) look at the slots of the
working timetable.  The work is done by keras.layers.MultiHeadAttention; a slot
counts only if it is free AND on the requested line, given as a boolean matrix
`usable` (batch, requests, slots), True = may be looked at.  Requests for which
no slot is usable keep their own vector unchanged.
"""
import keras
from keras import ops


@keras.saving.register_keras_serializable("timetable")
class SlotLookup(keras.layers.Layer):
    def __init__(self, dim=12, heads=3, **kw):
        super().__init__(**kw)
        self.dim = dim
        self.heads = heads
        self.mha = keras.layers.MultiHeadAttention(num_heads=heads, key_dim=dim // heads)
        self.gate = keras.layers.Dense(dim, activation="sigmoid")

    def build(self, requests_shape, slots_shape=None, usable_shape=None):
        slots_shape = slots_shape or requests_shape
        self.mha.build(requests_shape, slots_shape)
        self.gate.build(requests_shape)
        self.built = True

    def call(self, requests, slots, usable):
        found = self.mha(query=requests, value=slots, attention_mask=usable)
        some = ops.cast(ops.any(usable, axis=-1, keepdims=True), requests.dtype)
        return requests + some * self.gate(requests) * found

    def compute_output_shape(self, requests_shape, *args):
        return requests_shape

    def get_config(self):
        cfg = super().get_config()
        cfg.update(dim=self.dim, heads=self.heads)
        return cfg


if __name__ == "__main__":
    import numpy as np

    rng = np.random.default_rng(0)
    req = rng.normal(size=(2, 4, 12)).astype("float32")
    slots = rng.normal(size=(2, 7, 12)).astype("float32")
    usable = rng.random((2, 4, 7)) > 0.4
    print(SlotLookup()(req, slots, usable).shape)

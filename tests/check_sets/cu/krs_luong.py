"""Luong attention ("general" score) as a Keras 3 layer, any backend.

    score(h_t, s_j) = h_t^T W s_j ;  out = tanh(W_c [context ; h_t])
"""
import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
from keras import ops


@keras.saving.register_keras_serializable("krs")
class LuongGeneral(keras.layers.Layer):
    def __init__(self, units=16, **kw):
        super().__init__(**kw)
        self.units = units
        self.W = None
        self.Wc = keras.layers.Dense(units, activation="tanh", use_bias=False)

    def build(self, shapes):
        dec, enc = shapes
        self.W = self.add_weight(shape=(dec[-1], enc[-1]), initializer="glorot_uniform", name="W")
        self.Wc.build((None, None, dec[-1] + enc[-1]))

    def call(self, inputs, mask=None, return_attention_scores=False):
        """inputs = (decoder [B,T,Dd], encoder [B,S,De]); mask [B,S], True = real token.
        With return_attention_scores the softmax weights [B,T,S] come second."""
        dec, enc = inputs
        s = ops.einsum("btd,de,bse->bts", dec, self.W, enc)
        if mask is not None:
            keep = ops.expand_dims(ops.cast(mask, "bool"), 1)
            s = ops.where(keep, s, ops.full_like(s, -3e38))
        a = ops.softmax(s, axis=-1)
        out = self.Wc(ops.concatenate([ops.matmul(a, enc), dec], axis=-1))
        return (out, a) if return_attention_scores else out

    def get_config(self):
        return {**super().get_config(), "units": self.units}

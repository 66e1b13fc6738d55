# -*- coding: utf-8 -*-
# Kaggle "display ads" kernel, exported with nbconvert and cleaned up a bit.
import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
from keras import layers, ops


EMB = 16
HIST = 20


class HistoryReader(layers.Layer):
    """The candidate ad asks, the click history answers.

    inputs: ad (B, E), history (B, T, E), seen (B, T) with 1 for a real click, 0 for padding.
    A user without any click gets a zero vector.
    """

    def __init__(self, units=16, heads=2, **kw):
        super().__init__(**kw)
        assert units % heads == 0
        self.units, self.heads = units, heads
        self.fq = layers.Dense(units, use_bias=False)
        self.fk = layers.Dense(units, use_bias=False)
        self.fv = layers.Dense(units, use_bias=False)

    def build(self, shapes):
        ad, hist = shapes[0], shapes[1]
        self.fq.build(ad)
        self.fk.build(hist)
        self.fv.build(hist)
        self.built = True

    def call(self, inputs):
        ad, hist, seen = inputs
        per = self.units // self.heads
        t = ops.shape(hist)[1]
        q = ops.reshape(self.fq(ad), (-1, self.heads, per))
        k = ops.reshape(self.fk(hist), (-1, t, self.heads, per))
        v = ops.reshape(self.fv(hist), (-1, t, self.heads, per))
        logit = ops.einsum("bhd,bthd->bht", q, k) / (per ** 0.5)
        keep = ops.expand_dims(ops.cast(seen, "bool"), 1)
        logit = ops.where(keep, logit, -1e30)
        w = ops.softmax(logit, axis=-1)
        w = ops.where(keep, w, 0.0)
        out = ops.einsum("bht,bthd->bhd", w, v)
        return ops.reshape(out, (-1, self.units))

    def compute_output_shape(self, shapes):
        return (shapes[0][0], self.units)


def build_model(n_items):
    ad = keras.Input((), dtype="int32", name="ad")
    clicks = keras.Input((HIST,), dtype="int32", name="clicks")
    table = layers.Embedding(n_items, EMB)
    seen = ops.cast(ops.not_equal(clicks, 0), "float32")
    taste = HistoryReader()([table(ad), table(clicks), seen])
    x = layers.Concatenate()([taste, table(ad)])
    x = layers.Dense(32, activation="relu")(x)
    p = layers.Dense(1, activation="sigmoid")(x)
    return keras.Model([ad, clicks], p)

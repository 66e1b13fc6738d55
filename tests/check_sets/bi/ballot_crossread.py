"""Ballot reader: contest boxes read the ink marks (Keras 3).

A scanned ballot gives a variable number of ink marks.  Each contest box asks the marks
and decides between vote, no vote and "show to a human".
"""
import keras
import numpy as np
from keras import ops

OUTCOMES = ("vote", "blank", "human")


class CrossRead(keras.layers.Layer):
    """Boxes attend to marks.

    boxes     (batch, n_boxes, c)
    marks     (batch, n_marks, c)
    is_mark   (batch, n_marks) bool, False = padding.  A ballot without any mark yields
              a zero context (before the output projection, which has no bias).
    """

    def __init__(self, heads, key_dim, dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        self.heads, self.key_dim = heads, key_dim
        mk = lambda name: keras.layers.EinsumDense(
            "blc,chd->blhd", output_shape=(None, heads, key_dim), name=name)
        self.q, self.k, self.v = mk("q"), mk("k"), mk("v")
        self.drop = keras.layers.Dropout(dropout)

    def build(self, boxes_shape, marks_shape, is_mark_shape=None):
        self.q.build(boxes_shape)
        self.k.build(marks_shape)
        self.v.build(marks_shape)
        self.o = self.add_weight(shape=(self.heads, self.key_dim, boxes_shape[-1]),
                                 initializer="glorot_uniform", name="o")

    def call(self, boxes, marks, is_mark=None, training=False):
        q = self.q(boxes) * (self.key_dim ** -0.5)
        s = ops.einsum("bqhd,bkhd->bhqk", q, self.k(marks))
        if is_mark is not None:
            keep = ops.cast(is_mark, "bool")[:, None, None, :]
            low = float(np.finfo("float32").min) / 2
            s = ops.where(keep, s, low)
            w = ops.softmax(s, axis=-1)
            w = ops.where(keep, w, 0.0)
        else:
            w = ops.softmax(s, axis=-1)
        y = ops.einsum("bhqk,bkhd->bqhd", self.drop(w, training=training), self.v(marks))
        return ops.einsum("bqhd,hdc->bqc", y, self.o)


def reader(n_boxes=12, feat=10, width=32, heads=4):
    boxes = keras.Input((n_boxes, feat))
    marks = keras.Input((None, feat))
    is_mark = keras.Input((None,), dtype="bool")
    b = keras.layers.Dense(width)(boxes)
    m = keras.layers.Dense(width, activation="gelu")(marks)
    h = keras.layers.LayerNormalization()(b)
    h = keras.layers.Add()([b, CrossRead(heads, width // heads)(h, m, is_mark)])
    out = keras.layers.Dense(len(OUTCOMES), activation="softmax")(h)
    return keras.Model([boxes, marks, is_mark], out)


def tally(probs, sure=0.98):
    """Votes per box; below `sure` the ballot goes to a human."""
    best = probs.argmax(-1)
    best[probs.max(-1) < sure] = OUTCOMES.index("human")
    return [np.bincount(col, minlength=3) for col in best.T]

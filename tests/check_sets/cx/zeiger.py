"""Pointer-generator output distribution for summarising customer tickets."""
import os

os.environ.setdefault("KERAS_BACKEND", "torch")
import keras
from keras import ops


class PointerGenerator(keras.layers.Layer):
    """state [B, D] decoder state, memory [B, L, E] encoder states, source [B, L] int ids in the
    extended vocabulary (size vocab + extra), valid [B, L] bool with at least one True.

    Returns (p [B, vocab + extra], a [B, L]); both sum to one.
    p = g * p_vocab + (1 - g) * copy, where copy adds up the attention of equal source ids.
    Score: v . tanh(W_s state + W_m memory + b)  (See et al. 2017).
    """

    def __init__(self, units, vocab, extra, **kw):
        super().__init__(**kw)
        self.vocab, self.extra = vocab, extra
        self.ws = keras.layers.Dense(units)
        self.wm = keras.layers.Dense(units, use_bias=False)
        self.v = keras.layers.Dense(1, use_bias=False)
        self.gate = keras.layers.Dense(1, activation="sigmoid")
        self.word = keras.layers.Dense(vocab, activation="softmax")

    def call(self, state, memory, source, valid):
        e = self.v(ops.tanh(ops.expand_dims(self.ws(state), 1) + self.wm(memory)))[..., 0]
        e = ops.where(valid, e, float("-inf"))
        a = ops.softmax(e, axis=-1)
        context = ops.sum(ops.expand_dims(a, -1) * memory, axis=1)
        both = ops.concatenate([state, context], axis=-1)
        g = self.gate(both)
        p_vocab = ops.pad(self.word(both), [[0, 0], [0, self.extra]])
        where = ops.one_hot(source, self.vocab + self.extra)
        copy = ops.einsum("bl,blw->bw", a, where)
        return g * p_vocab + (1.0 - g) * copy, a

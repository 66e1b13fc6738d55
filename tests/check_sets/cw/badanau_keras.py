import os

os.environ.setdefault("KERAS_BACKEND", "torch")
import keras
from keras import ops


class AdditiveReader(keras.layers.Layer):
    """v . tanh(W s + U h_j), normalised over the source positions j.

    call(state, source, n_source): state (B, S), source (B, T, E),
    n_source (B,) ints >= 1 (positions from n_source on are padding).
    Returns (context (B, E), weights (B, T)).
    """

    def __init__(self, units, **kw):
        super().__init__(**kw)
        self.units = units
        self.W = keras.layers.Dense(units, use_bias=False)
        self.U = keras.layers.Dense(units)
        self.v = keras.layers.Dense(1, use_bias=False)

    def build(self, state_shape, source_shape=None, n_source_shape=None):
        if source_shape is not None:
            self.W.build(state_shape)
            self.U.build(source_shape)
            self.v.build((None, None, self.units))
        self.built = True

    def call(self, state, source, n_source):
        mixed = ops.expand_dims(self.W(state), 1) + self.U(source)
        energy = ops.squeeze(self.v(ops.tanh(mixed)), -1)
        real = ops.expand_dims(ops.arange(ops.shape(source)[1]), 0) < ops.expand_dims(n_source, 1)
        energy = ops.where(real, energy, -float("inf"))
        weights = ops.softmax(energy, axis=1)
        context = ops.sum(ops.expand_dims(weights, -1) * source, axis=1)
        return context, weights

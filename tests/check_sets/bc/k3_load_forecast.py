"""Electric load forecasting (Keras 3). Kaggle-style script turned into a module."""
import keras
from keras import layers, ops

HORIZON = 24
LOOKBACK = 168


@keras.saving.register_keras_serializable(package="load")
class MultiVariateMixer(layers.Layer):
    """Causal self-attention along time with heads.

    inputs: (batch, time, features); missing: (batch, time), 1 where the meter
    failed. Such hours are not read by other hours; an hour always reads itself.
    """

    def __init__(self, units, heads=4, **kw):
        super().__init__(**kw)
        self.units, self.heads = units, heads
        self.dk = units // heads
        self.to_q = layers.Dense(units, use_bias=False)
        self.to_k = layers.Dense(units, use_bias=False)
        self.to_v = layers.Dense(units)
        self.mix = layers.Dense(units)

    def build(self, input_shape):
        for d in (self.to_q, self.to_k, self.to_v):
            d.build(input_shape)
        self.mix.build(tuple(input_shape[:-1]) + (self.units,))

    def _heads(self, t):
        b, n = ops.shape(t)[0], ops.shape(t)[1]
        return ops.transpose(ops.reshape(t, (b, n, self.heads, self.dk)), (0, 2, 1, 3))

    def call(self, inputs, missing=None):
        q, k, v = (self._heads(f(inputs)) for f in (self.to_q, self.to_k, self.to_v))
        n = ops.shape(inputs)[1]
        s = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) / self.dk**0.5
        i = ops.arange(n)
        blocked = ops.expand_dims(i, 0) > ops.expand_dims(i, 1)
        blocked = ops.reshape(blocked, (1, 1, n, n))
        if missing is not None:
            hole = ops.cast(missing, "bool")[:, None, None, :]
            other = ops.reshape(ops.not_equal(ops.expand_dims(i, 0), ops.expand_dims(i, 1)), (1, 1, n, n))
            blocked = ops.logical_or(blocked, ops.logical_and(hole, other))
        s = ops.where(blocked, -1e9, s)
        o = ops.transpose(ops.matmul(ops.softmax(s, axis=-1), v), (0, 2, 1, 3))
        return self.mix(ops.reshape(o, (ops.shape(o)[0], n, self.units)))

    def get_config(self):
        return {**super().get_config(), "units": self.units, "heads": self.heads}


def build_model(n_feat, units=32):
    inp = keras.Input((LOOKBACK, n_feat))
    x = layers.Dense(units)(inp)
    x = layers.LayerNormalization()(x + MultiVariateMixer(units)(x))
    return keras.Model(inp, layers.Dense(HORIZON)(x[:, -1]))

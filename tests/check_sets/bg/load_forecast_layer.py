"""Substation load forecasting with Keras 3 (any backend).

The encoder reads a week of hourly load, calendar features and temperature and
predicts the next day.  `HourMixer` is a standard scaled dot-product self-attention
over the hours, non causal.
"""
import keras
from keras import layers, ops

HOURS_IN = 168
HOURS_OUT = 24


@keras.saving.register_keras_serializable(package="gridload")
class HourMixer(layers.Layer):
    """x: (batch, hours, units) -> same shape.  `units` is split over `heads`."""

    def __init__(self, units, heads, **kw):
        super().__init__(**kw)
        if units % heads:
            raise ValueError("units must be a multiple of heads")
        self.units, self.heads = units, heads
        self.depth = units // heads
        self.wq = layers.Dense(units, use_bias=False, name="wq")
        self.wk = layers.Dense(units, use_bias=False, name="wk")
        self.wv = layers.Dense(units, use_bias=False, name="wv")
        self.wo = layers.Dense(units, name="wo")

    def build(self, shape):
        for d in (self.wq, self.wk, self.wv):
            d.build(shape)
        self.wo.build(tuple(shape[:-1]) + (self.units,))
        self.built = True

    def _split(self, t):
        b, n = ops.shape(t)[0], ops.shape(t)[1]
        return ops.transpose(ops.reshape(t, (b, n, self.heads, self.depth)), (0, 2, 1, 3))

    def call(self, x):
        q, k, v = (self._split(f(x)) for f in (self.wq, self.wk, self.wv))
        dk = ops.cast(ops.shape(k)[-2], x.dtype)
        logits = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) / ops.sqrt(dk)
        w = ops.softmax(logits, axis=-1)
        y = ops.transpose(ops.matmul(w, v), (0, 2, 1, 3))
        b, n = ops.shape(x)[0], ops.shape(x)[1]
        return self.wo(ops.reshape(y, (b, n, self.units)))

    def get_config(self):
        return {**super().get_config(), "units": self.units, "heads": self.heads}


def build_model(features=5, units=32, heads=4):
    inp = keras.Input((HOURS_IN, features))
    x = layers.Dense(units)(inp)
    x = x + HourMixer(units, heads)(layers.LayerNormalization()(x))
    x = layers.GlobalAveragePooling1D()(x)
    return keras.Model(inp, layers.Dense(HOURS_OUT)(x))


if __name__ == "__main__":
    build_model().summary()

"""Electricity load forecasting with Keras 3. Self attention over the past hours."""
import keras
from keras import layers, ops


@keras.saving.register_keras_serializable("load")
class HourAttention(layers.Layer):
    """Multi-head self attention.

    Call with x (batch, hours, features) and optionally missing (batch, hours), which
    is 1 where the meter gave NO reading (such hours are not attended to). A batch
    row in which all readings are missing returns just the output bias.
    """

    def __init__(self, units, heads=2, dropout=0.0, **kw):
        super().__init__(**kw)
        self.units, self.heads, self.rate = units, heads, dropout
        self.q = layers.Dense(units, name="q")
        self.k = layers.Dense(units, name="k")
        self.v = layers.Dense(units, name="v")
        self.o = layers.Dense(units, name="o")
        self.drop = layers.Dropout(dropout)

    def _heads(self, t):
        b, n, _ = ops.shape(t)
        t = ops.reshape(t, (b, n, self.heads, self.units // self.heads))
        return ops.transpose(t, (0, 2, 1, 3))

    def call(self, x, missing=None, training=False):
        q, k, v = self._heads(self.q(x)), self._heads(self.k(x)), self._heads(self.v(x))
        s = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2)))
        s = s / float(self.units // self.heads) ** 0.5
        if missing is not None:
            gone = ops.cast(missing, "bool")[:, None, None, :]
            s = ops.where(gone, -1e9, s)
        w = ops.softmax(s, axis=-1)
        if missing is not None:
            w = ops.where(gone, 0.0, w)
        w = self.drop(w, training=training)
        y = ops.transpose(ops.matmul(w, v), (0, 2, 1, 3))
        b, n = ops.shape(y)[:2]
        return self.o(ops.reshape(y, (b, n, self.units)))

    def get_config(self):
        return {**super().get_config(), "units": self.units, "heads": self.heads, "dropout": self.rate}


def build(hours=24, feats=5, units=16):
    x = keras.Input((hours, feats))
    miss = keras.Input((hours,), dtype="int32")
    h = layers.Dense(units)(x)
    h = layers.LayerNormalization()(h + HourAttention(units)(h, miss))
    h = layers.GlobalAveragePooling1D()(h)
    return keras.Model([x, miss], layers.Dense(1)(h))

"""Rain-gauge nowcasting: who listens to whom. Keras 3 port of the student notebook.

Each sample is a set of stations (some offline), each station a short history.
A station block attends across stations; `online` is 1 for a station that reports.
"""
import keras
from keras import layers, ops


@keras.saving.register_keras_serializable(package="nowcast")
class StationAttention(layers.Layer):
    """Pre-norm multi-head attention across stations + feed forward.

    online: (batch, stations), 1 = reporting. Offline stations are not used as keys;
    their own rows are computed like the others and zeroed at the end.
    """

    def __init__(self, units, num_heads, rate=0.1, **kw):
        super().__init__(**kw)
        if units % num_heads:
            raise ValueError("units must be a multiple of num_heads")
        self.units, self.num_heads, self.rate = units, num_heads, rate
        self.key_dim = units // num_heads
        self.norm1 = layers.LayerNormalization(epsilon=1e-6)
        self.norm2 = layers.LayerNormalization(epsilon=1e-6)
        self.q = layers.Dense(units)
        self.k = layers.Dense(units)
        self.v = layers.Dense(units)
        self.o = layers.Dense(units)
        self.ff1 = layers.Dense(2 * units, activation="gelu")
        self.ff2 = layers.Dense(units)
        self.drop = layers.Dropout(rate)

    def _heads(self, t):
        n = ops.shape(t)[1]
        t = ops.reshape(t, (-1, n, self.num_heads, self.key_dim))
        return ops.transpose(t, (0, 2, 1, 3))

    def call(self, x, online, training=None):
        h = self.norm1(x)
        q, k, v = self._heads(self.q(h)), self._heads(self.k(h)), self._heads(self.v(h))
        logits = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) / (self.key_dim ** 0.5)
        offline = ops.logical_not(ops.cast(online, "bool"))
        logits = ops.where(offline[:, None, None, :], ops.cast(-1e9, logits.dtype), logits)
        w = self.drop(ops.softmax(logits, axis=-1), training=training)
        y = ops.transpose(ops.matmul(w, v), (0, 2, 1, 3))
        y = ops.reshape(y, (-1, ops.shape(x)[1], self.units))
        x = x + self.drop(self.o(y), training=training)
        x = x + self.ff2(self.ff1(self.norm2(x)))
        return x * ops.cast(online, x.dtype)[..., None]

    def get_config(self):
        return {**super().get_config(), "units": self.units, "num_heads": self.num_heads, "rate": self.rate}


def build(stations=12, history=6, units=32, heads=4, depth=2):
    rain = keras.Input((stations, history), name="rain")
    online = keras.Input((stations,), name="online")
    x = layers.Dense(units)(rain)
    for _ in range(depth):
        x = StationAttention(units, heads)(x, online)
    out = layers.Dense(1, activation="softplus")(x)
    return keras.Model([rain, online], ops.squeeze(out, -1))


if __name__ == "__main__":
    model = build()
    model.summary()

# Nowcasting of precipitation at automatic stations, Keras 3.
# input: [batch, hours, variables]; gaps in the record come with a presence mask [batch, hours]
import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
from keras import layers
from keras import ops


class HourAttention(layers.Layer):
    """Scaled dot-product attention (Vaswani et al. 2017) over the hours, several heads.

    present: 1 where the station reported, 0 where it did not (those hours are not attended).
    """

    def __init__(self, units, heads=4, **kw):
        super().__init__(**kw)
        self.units = units
        self.heads = heads
        self.proj_q = layers.Dense(units, use_bias=False, name="q")
        self.proj_k = layers.Dense(units, use_bias=False, name="k")
        self.proj_v = layers.Dense(units, use_bias=False, name="v")
        self.proj_o = layers.Dense(units, name="o")

    def separate(self, t):
        b, n = ops.shape(t)[0], ops.shape(t)[1]
        t = ops.reshape(t, (b, n, self.heads, self.units // self.heads))
        return ops.transpose(t, (0, 2, 1, 3))

    def call(self, x, present=None):
        query = self.separate(self.proj_q(x))
        key = self.separate(self.proj_k(x))
        value = self.separate(self.proj_v(x))

        matmul_qk = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2)))
        dk = ops.cast(ops.shape(key)[-2], matmul_qk.dtype)
        scaled = matmul_qk / ops.sqrt(dk)
        if present is not None:
            absent = 1.0 - ops.cast(present, scaled.dtype)
            scaled = scaled + absent[:, None, None, :] * -1e9
        weights = ops.softmax(scaled, axis=-1)

        out = ops.transpose(ops.matmul(weights, value), (0, 2, 1, 3))
        out = ops.reshape(out, (ops.shape(x)[0], ops.shape(x)[1], self.units))
        return self.proj_o(out)


class HourBlock(layers.Layer):
    def __init__(self, units, heads, rate=0.1, **kw):
        super().__init__(**kw)
        self.att = HourAttention(units, heads)
        self.ffn = keras.Sequential([layers.Dense(units * 2, activation="relu"), layers.Dense(units)])
        self.ln1 = layers.LayerNormalization(epsilon=1e-6)
        self.ln2 = layers.LayerNormalization(epsilon=1e-6)
        self.do1 = layers.Dropout(rate)
        self.do2 = layers.Dropout(rate)

    def call(self, x, present=None, training=None):
        x = self.ln1(x + self.do1(self.att(x, present), training=training))
        return self.ln2(x + self.do2(self.ffn(x), training=training))


class StationNowcast(keras.Model):
    """rain in the next 6 hours, three classes (none / light / heavy)"""

    def __init__(self, units=64, heads=4, depth=2, max_hours=240, **kw):
        super().__init__(**kw)
        self.inp = layers.Dense(units)
        self.pos = layers.Embedding(max_hours, units)
        self.blocks = [HourBlock(units, heads) for _ in range(depth)]
        self.out = layers.Dense(3)

    def call(self, x, present=None, training=None):
        h = self.inp(x) + self.pos(ops.arange(ops.shape(x)[1]))
        for b in self.blocks:
            h = b(h, present, training=training)
        return self.out(h[:, -1])


def build(hours=72, variables=9):
    model = StationNowcast()
    model(ops.zeros((1, hours, variables)))
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


if __name__ == "__main__":
    m = build()
    m.summary()

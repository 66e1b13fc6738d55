"""CandleNet: next-day direction from OHLCV candles. Kaggle notebook turned into a module (Keras 3)."""
import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
from keras import layers, ops


@keras.saving.register_keras_serializable("candlenet")
class CandleAttention(layers.Layer):
    """Causal multi-head self-attention over the days of a window.

    `mask` (batch, days): True for trading days, False for filled-in holidays, which
    are not to be attended.
    """

    def __init__(self, heads, key_dim, dropout=0.0, **kw):
        super().__init__(**kw)
        self.heads, self.key_dim, self.rate = heads, key_dim, dropout
        self.supports_masking = True

    def build(self, shape):
        inner = self.heads * self.key_dim
        self.q = layers.Dense(inner, name="q")
        self.k = layers.Dense(inner, name="k")
        self.v = layers.Dense(inner, name="v")
        self.o = layers.Dense(shape[-1], name="o")
        for lay in (self.q, self.k, self.v):
            lay.build(shape)
        self.o.build((*shape[:-1], inner))
        self.drop = layers.Dropout(self.rate)
        super().build(shape)

    def _split(self, x, days):
        x = ops.reshape(x, (-1, days, self.heads, self.key_dim))
        return ops.transpose(x, (0, 2, 1, 3))

    def call(self, x, mask=None, training=None):
        days = x.shape[1]
        q, k, v = (self._split(f(x), days) for f in (self.q, self.k, self.v))
        s = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) / self.key_dim ** 0.5
        t = ops.arange(days)
        keep = ops.expand_dims(t, 0) <= ops.expand_dims(t, 1)
        keep = ops.reshape(keep, (1, 1, days, days))
        if mask is not None:
            keep = ops.logical_and(keep, ops.cast(mask, "bool")[:, None, None, :])
        s = ops.where(keep, s, -1e9)
        w = self.drop(ops.softmax(s, axis=-1), training=training)
        y = ops.transpose(ops.matmul(w, v), (0, 2, 1, 3))
        return self.o(ops.reshape(y, (-1, days, self.heads * self.key_dim)))

    def get_config(self):
        return {**super().get_config(), "heads": self.heads, "key_dim": self.key_dim, "dropout": self.rate}


@keras.saving.register_keras_serializable("candlenet")
class DayEmbedding(layers.Layer):
    def __init__(self, days, **kw):
        super().__init__(**kw)
        self.days = days

    def build(self, shape):
        self.table = self.add_weight(shape=(self.days, shape[-1]), initializer="random_normal", name="table")

    def call(self, x):
        return x + self.table[None, : x.shape[1]]

    def get_config(self):
        return {**super().get_config(), "days": self.days}


def returns(ohlcv):
    """log returns of the four prices and of the volume"""
    x = ops.log(ops.convert_to_tensor(ohlcv) + 1e-6)
    return x[:, 1:] - x[:, :-1]


def candle_net(days=32, feats=5, dim=32, depth=2):
    inp = keras.Input((days, feats))
    x = layers.Dense(dim)(inp)
    x = DayEmbedding(days)(x)
    for _ in range(depth):
        y = CandleAttention(4, dim // 4, 0.1)(layers.LayerNormalization()(x))
        x = layers.Add()([x, y])
        y = layers.Dense(2 * dim, activation="gelu")(layers.LayerNormalization()(x))
        x = layers.Add()([x, layers.Dense(dim)(y)])
    out = layers.Dense(1, activation="sigmoid")(x[:, -1])
    return keras.Model(inp, out)

"""Drum-groove transformer in Keras 3.

Hits of a performance are events on a 16th-note grid.  Grooves are local, so every
event sees only itself and the `window - 1` events before it (window = 1: only itself).
"""
import math

import keras
import numpy as np
from keras import layers, ops

KIT = ["kick", "snare", "hat_closed", "hat_open", "tom_low", "tom_mid", "tom_high", "crash", "ride"]


def local_mask(length, window):
    """(length, length) bool, True = query (row) may use key (column)"""
    i = ops.arange(length)[:, None]
    j = ops.arange(length)[None, :]
    back = i - j
    return ops.logical_and(back >= 0, back <= window)


class LocalAttention(layers.Layer):
    def __init__(self, heads, window, dropout=0.0, **kw):
        super().__init__(**kw)
        self.heads, self.window = heads, window
        self.drop = layers.Dropout(dropout)

    def build(self, shape):
        d = shape[-1]
        assert d % self.heads == 0
        self.key_dim = d // self.heads
        self.wq = layers.Dense(d, use_bias=False)
        self.wk = layers.Dense(d, use_bias=False)
        self.wv = layers.Dense(d, use_bias=False)
        self.wo = layers.Dense(d)
        for w in (self.wq, self.wk, self.wv, self.wo):
            w.build(shape)

    def _split(self, x):
        b, n, _ = ops.shape(x)
        return ops.transpose(ops.reshape(x, (b, n, self.heads, self.key_dim)), (0, 2, 1, 3))

    def call(self, x, training=False):
        b, n, d = ops.shape(x)
        q, k, v = self._split(self.wq(x)), self._split(self.wk(x)), self._split(self.wv(x))
        s = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) / math.sqrt(self.key_dim)
        s = ops.where(local_mask(n, self.window)[None, None], s, -1e9)
        p = self.drop(ops.softmax(s, axis=-1), training=training)
        y = ops.transpose(ops.matmul(p, v), (0, 2, 1, 3))
        return self.wo(ops.reshape(y, (b, n, d)))


class GrooveBlock(layers.Layer):
    def __init__(self, dim, heads, window, rate, **kw):
        super().__init__(**kw)
        self.n1, self.n2 = layers.LayerNormalization(epsilon=1e-6), layers.LayerNormalization(epsilon=1e-6)
        self.att = LocalAttention(heads, window, rate)
        self.f1, self.f2 = layers.Dense(4 * dim, activation="gelu"), layers.Dense(dim)

    def call(self, x, training=False):
        x = x + self.att(self.n1(x), training=training)
        return x + self.f2(self.f1(self.n2(x)))


class GrooveNet(keras.Model):
    """input (B, T, 9) velocities 0..1, output (B, T, 18): hit logits and velocities of the next step"""

    def __init__(self, dim=32, heads=4, window=8, depth=2, rate=0.1, **kw):
        super().__init__(**kw)
        self.inp = layers.Dense(dim)
        self.beat = layers.Embedding(16, dim)
        self.blocks = [GrooveBlock(dim, heads, window, rate) for _ in range(depth)]
        self.out = layers.Dense(2 * len(KIT))

    def call(self, x, training=False):
        t = ops.arange(ops.shape(x)[1]) % 16
        h = self.inp(x) + self.beat(t)[None]
        for b in self.blocks:
            h = b(h, training=training)
        return self.out(h)


def groove_loss(y, pred):
    n = len(KIT)
    y = ops.convert_to_tensor(y, dtype=pred.dtype)
    hit = ops.cast(y > 0, pred.dtype)
    bce = ops.binary_crossentropy(hit, pred[..., :n], from_logits=True)
    vel = ops.square(ops.sigmoid(pred[..., n:]) - y) * hit
    return ops.mean(bce) + ops.mean(vel)


def boom_bap(bars=2):
    g = np.zeros((bars * 16, len(KIT)), "float32")
    g[0::16, 0] = g[10::16, 0] = 0.9
    g[4::8, 1] = 0.8
    g[0::2, 2] = 0.5
    return g[None]


if __name__ == "__main__":
    x = boom_bap()
    print(ops.convert_to_numpy(groove_loss(x[:, 1:], GrooveNet()(x[:, :-1]))))

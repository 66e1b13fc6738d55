"""NRMS news recommendation (Wu et al. 2019) with Keras 3."""
import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
from keras import layers, ops


class AttLayer2(layers.Layer):
    """Additive attention pooling: [B, T, D] -> [B, D].

    mask: [B, T], nonzero where the word / the click exists.
    """

    def __init__(self, dim=200, seed=0, **kw):
        super().__init__(**kw)
        self.dim = dim
        self.seed = seed

    def build(self, input_shape):
        d = int(input_shape[-1])
        init = keras.initializers.GlorotUniform(self.seed)
        self.W = self.add_weight(name="W", shape=(d, self.dim), initializer=init)
        self.b = self.add_weight(name="b", shape=(self.dim,), initializer="zeros")
        self.q = self.add_weight(name="q", shape=(self.dim, 1), initializer=init)
        super().build(input_shape)

    def call(self, inputs, mask=None):
        a = ops.tanh(ops.matmul(inputs, self.W) + self.b)
        a = ops.squeeze(ops.matmul(a, self.q), axis=2)
        if mask is not None:
            keep = ops.cast(mask, "bool")
            a = ops.where(keep, a, ops.full_like(a, -1e9))
        w = ops.softmax(a, axis=-1)
        return ops.sum(inputs * ops.expand_dims(w, -1), axis=1)

    def compute_output_shape(self, s):
        return s[0], s[-1]


class SelfAttention(layers.Layer):
    def __init__(self, multiheads, head_dim, seed=0, **kw):
        super().__init__(**kw)
        self.h, self.d, self.seed = multiheads, head_dim, seed

    def build(self, input_shape):
        n = self.h * self.d
        for name in ("WQ", "WK", "WV"):
            setattr(self, name, self.add_weight(
                name=name, shape=(int(input_shape[-1]), n),
                initializer=keras.initializers.GlorotUniform(self.seed + len(self.weights))))
        super().build(input_shape)

    def call(self, x, mask=None):
        t = ops.shape(x)[1]

        def cut(y):
            return ops.transpose(ops.reshape(y, (-1, t, self.h, self.d)), (0, 2, 1, 3))

        q, k, v = cut(ops.matmul(x, self.WQ)), cut(ops.matmul(x, self.WK)), cut(ops.matmul(x, self.WV))
        a = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) / float(self.d) ** 0.5
        if mask is not None:
            m = ops.cast(mask, a.dtype)[:, None, None, :]
            a = a - (1.0 - m) * 1e9
        a = ops.softmax(a, axis=-1)
        o = ops.transpose(ops.matmul(a, v), (0, 2, 1, 3))
        return ops.reshape(o, (-1, t, self.h * self.d))


class NewsEncoder(layers.Layer):
    """Title word vectors [B, T, E] and mask [B, T] -> news vector."""

    def __init__(self, heads=4, head_dim=8, att_dim=16, dropout=0.2, **kw):
        super().__init__(**kw)
        self.drop = layers.Dropout(dropout)
        self.sa = SelfAttention(heads, head_dim)
        self.pool = AttLayer2(att_dim)

    def call(self, words, mask=None, training=False):
        y = self.drop(words, training=training)
        y = self.sa(y, mask=mask)
        y = self.drop(y, training=training)
        return self.pool(y, mask=mask)


def click_score(user_vec, news_vec):
    return ops.sum(user_vec[:, None] * news_vec, axis=-1)

"""T5 encoder self attention as a Keras 3 layer (used for a Finnish summariser)."""
import os
os.environ.setdefault("KERAS_BACKEND", "torch")
import math
import numpy as np
import keras
from keras import ops


def bucket_table(length, buckets=32, far=128):
    """[length, length] bucket numbers, bidirectional, of (key position - query position)."""
    rel = np.arange(length)[None, :] - np.arange(length)[:, None]
    half = buckets // 2
    out = np.where(rel > 0, half, 0)
    n = np.abs(rel)
    exact = half // 2
    big = exact + (np.log(np.maximum(n, 1) / exact) / math.log(far / exact) * (half - exact)).astype(int)
    return out + np.where(n < exact, n, np.minimum(big, half - 1))


class T5SelfAttention(keras.layers.Layer):
    """call(x, mask=None): x [B, L, width]; mask [B, L], 1 = token, 0 = pad.

    T5 has no 1/sqrt(d) factor: it is part of the initialisation of the query weights. We keep this.
    """

    def __init__(self, width=32, heads=4, d_kv=8, buckets=32, **kw):
        super().__init__(**kw)
        self.heads, self.d_kv, self.buckets = heads, d_kv, buckets
        inner = heads * d_kv
        init = keras.initializers.RandomNormal
        self.q = keras.layers.Dense(inner, use_bias=False, kernel_initializer=init(stddev=(width * d_kv) ** -0.5))
        self.k = keras.layers.Dense(inner, use_bias=False, kernel_initializer=init(stddev=width ** -0.5))
        self.v = keras.layers.Dense(inner, use_bias=False, kernel_initializer=init(stddev=width ** -0.5))
        self.o = keras.layers.Dense(width, use_bias=False)
        self.rel = keras.layers.Embedding(buckets, heads)

    def heads_of(self, t):
        B, L = t.shape[0], t.shape[1]
        return ops.transpose(ops.reshape(t, (B, L, self.heads, self.d_kv)), (0, 2, 1, 3))

    def call(self, x, mask=None):
        B, L, _ = x.shape
        q, k, v = self.heads_of(self.q(x)), self.heads_of(self.k(x)), self.heads_of(self.v(x))
        bias = ops.transpose(self.rel(bucket_table(L, self.buckets)), (2, 0, 1))   # heads, L, L
        s = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) + bias[None]
        if mask is not None:
            m = ops.cast(mask, "bool")[:, None, None, :]
            s = ops.where(m, s, -1e30)
        w = ops.softmax(s, axis=-1)
        y = ops.transpose(ops.matmul(w, v), (0, 2, 1, 3))
        return self.o(ops.reshape(y, (B, L, self.heads * self.d_kv)))

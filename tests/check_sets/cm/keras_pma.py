"""Set pooling by multi-head attention (Set Transformer, PMA) as a Keras 3 layer."""
import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
from keras import layers, ops


class PoolingByAttention(layers.Layer):
    """Pools a set (B, N, F) into n_seeds vectors (B, n_seeds, dim).

    mask: (B, N), True for the elements that exist. An empty set pools to the output
    projection of zeros.
    """

    def __init__(self, dim=16, heads=4, n_seeds=2, **kw):
        super().__init__(**kw)
        self.dim, self.heads, self.n_seeds = dim, heads, n_seeds
        self.key_dense = layers.Dense(dim)
        self.value_dense = layers.Dense(dim)
        self.out_dense = layers.Dense(dim)

    def build(self, input_shape):
        self.seeds = self.add_weight(
            name="seeds", shape=(self.n_seeds, self.dim), initializer="glorot_uniform"
        )
        self.key_dense.build(input_shape)
        self.value_dense.build(input_shape)
        self.out_dense.build((None, self.n_seeds, self.dim))
        self.built = True

    def call(self, x, mask=None):
        n = ops.shape(x)[1]
        d = self.dim // self.heads
        q = ops.reshape(self.seeds, (self.n_seeds, self.heads, d))
        k = ops.reshape(self.key_dense(x), (-1, n, self.heads, d))
        v = ops.reshape(self.value_dense(x), (-1, n, self.heads, d))
        logits = ops.einsum("shd,bnhd->bhsn", q, k) / d**0.5
        if mask is not None:
            keep = ops.cast(mask, "bool")[:, None, None, :]
            logits = ops.where(keep, logits, -1e9)
            w = ops.softmax(logits, axis=-1) * ops.cast(keep, logits.dtype)
        else:
            w = ops.softmax(logits, axis=-1)
        pooled = ops.einsum("bhsn,bnhd->bshd", w, v)
        return self.out_dense(ops.reshape(pooled, (-1, self.n_seeds, self.dim)))

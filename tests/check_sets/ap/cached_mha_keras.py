"""Keras 3 decoder layer with a rolling cache, for text generation."""
import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
from keras import layers, ops


class CachedSelfAttention(layers.Layer):
    """Causal multi-head self attention.

    Call arguments:
        x: (batch, T, dim)
        padding_mask: optional (batch, total), 1/True for real tokens; total is T without
            cache and the cache length with one.
        cache: optional (batch, 2, max_len, heads, key_dim); slot 0 keys, slot 1 values.
        cache_index: number of tokens already in the cache.
    Returns (y, cache); cache is None when none was given.
    """

    def __init__(self, num_heads, key_dim, dropout=0.0, **kw):
        super().__init__(**kw)
        self.num_heads, self.key_dim, self.rate = num_heads, key_dim, dropout
        self.drop = layers.Dropout(dropout)

    def build(self, shape):
        h, d = self.num_heads, self.key_dim
        mk = lambda name: layers.EinsumDense("btm,mhd->bthd", output_shape=(None, h, d), bias_axes="hd", name=name)
        self.query_dense, self.key_dense, self.value_dense = mk("query"), mk("key"), mk("value")
        self.out_dense = layers.EinsumDense("bthd,hdm->btm", output_shape=(None, shape[-1]), bias_axes="m", name="out")
        for lay in (self.query_dense, self.key_dense, self.value_dense):
            lay.build(shape)
        self.out_dense.build((shape[0], shape[1], h, d))
        self.built = True

    def call(self, x, padding_mask=None, cache=None, cache_index=0, training=False):
        q = self.query_dense(x)
        k = self.key_dense(x)
        v = self.value_dense(x)
        T = ops.shape(x)[1]
        if cache is not None:
            start = (0, cache_index, 0, 0)
            k = ops.slice_update(cache[:, 0], start, k)
            v = ops.slice_update(cache[:, 1], start, v)
            cache = ops.stack([k, v], axis=1)
        S = ops.shape(k)[1]
        i = ops.arange(T) + (cache_index if cache is not None else 0)
        j = ops.arange(S)
        allowed = ops.expand_dims(i, 1) >= ops.expand_dims(j, 0)
        allowed = allowed[None, None]
        if padding_mask is not None:
            allowed = ops.logical_and(allowed, ops.cast(padding_mask, "bool")[:, None, None, :])
        scores = ops.einsum("bthd,bshd->bhts", q, k) * self.key_dim ** -0.5
        scores = ops.where(allowed, ops.cast(scores, "float32"), -1e38)
        probs = ops.cast(ops.softmax(scores, axis=-1), v.dtype)
        probs = self.drop(probs, training=training)
        y = ops.einsum("bhts,bshd->bthd", probs, v)
        return self.out_dense(y), cache

    def get_config(self):
        return {**super().get_config(), "num_heads": self.num_heads, "key_dim": self.key_dim, "dropout": self.rate}


class DecoderLayer(layers.Layer):
    def __init__(self, dim, heads, hidden, **kw):
        super().__init__(**kw)
        self.n1, self.n2 = layers.LayerNormalization(epsilon=1e-5), layers.LayerNormalization(epsilon=1e-5)
        self.att = CachedSelfAttention(heads, dim // heads)
        self.ff = keras.Sequential([layers.Dense(hidden, activation="gelu"), layers.Dense(dim)])

    def call(self, x, padding_mask=None, cache=None, cache_index=0, training=False):
        y, cache = self.att(self.n1(x), padding_mask, cache, cache_index=cache_index, training=training)
        x = x + y
        return x + self.ff(self.n2(x)), cache

"""Keras 3 encoder block for video frames (one vector per frame).

Scaled dot-product attention over time, written with keras.ops so that it can be exported;
then a gated feed-forward.  Use as any layer: FrameEncoder(64, 8)(frames).
"""
import keras
from keras import layers, ops


class FrameAttention(layers.Layer):
    def __init__(self, units, num_heads, **kw):
        super().__init__(**kw)
        self.units = units
        self.num_heads = num_heads
        self.key_dim = units // num_heads
        self.wq = layers.EinsumDense("abc,cde->abde", (None, num_heads, self.key_dim), bias_axes="de")
        self.wk = layers.EinsumDense("abc,cde->abde", (None, num_heads, self.key_dim), bias_axes="de")
        self.wv = layers.EinsumDense("abc,cde->abde", (None, num_heads, self.key_dim), bias_axes="de")
        self.wo = layers.EinsumDense("abde,dec->abc", (None, units), bias_axes="c")

    def build(self, shape):
        for w in (self.wq, self.wk, self.wv):
            w.build(shape)
        self.wo.build((None, None, self.num_heads, self.key_dim))
        super().build(shape)

    def call(self, x):
        q, k, v = self.wq(x), self.wk(x), self.wv(x)
        scores = ops.einsum("bqhd,bkhd->bhqk", q, k) / self.key_dim
        weights = ops.softmax(scores, axis=-1)
        return self.wo(ops.einsum("bhqk,bkhd->bqhd", weights, v))


class FrameEncoder(layers.Layer):
    def __init__(self, units=32, num_heads=4, **kw):
        super().__init__(**kw)
        self.norm1 = layers.LayerNormalization(epsilon=1e-6)
        self.norm2 = layers.LayerNormalization(epsilon=1e-6)
        self.attn = FrameAttention(units, num_heads)
        self.up = layers.Dense(2 * units, activation="silu")
        self.gate = layers.Dense(2 * units)
        self.down = layers.Dense(units)

    def build(self, shape):
        self.norm1.build(shape)
        self.norm2.build(shape)
        self.attn.build(shape)
        self.up.build(shape)
        self.gate.build(shape)
        self.down.build(shape[:-1] + (2 * shape[-1],))
        super().build(shape)

    def call(self, x):
        x = x + self.attn(self.norm1(x))
        y = self.norm2(x)
        return x + self.down(self.up(y) * self.gate(y))

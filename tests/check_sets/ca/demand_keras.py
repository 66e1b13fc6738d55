"""Causal attention layer of the weekly demand forecaster (Keras 3).

Input: [batch, weeks, features]; `open_weeks` [batch, weeks] is False in weeks in which
the shop was closed.  A week looks at itself and earlier weeks, closed weeks excepted;
a closed week still looks at itself, so that every row has something to look at.
"""
import keras
from keras import layers, ops


@keras.saving.register_keras_serializable(package="demand")
class CausalForecastAttention(layers.Layer):
    def __init__(self, num_heads=3, key_dim=6, dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.dropout = dropout

    def build(self, input_shape):
        dim = input_shape[-1]
        proj = "btc,chd->bthd"
        out = (None, self.num_heads, self.key_dim)
        self.query_dense = layers.EinsumDense(proj, out, bias_axes="hd", name="query")
        self.key_dense = layers.EinsumDense(proj, out, bias_axes="hd", name="key")
        self.value_dense = layers.EinsumDense(proj, out, bias_axes="hd", name="value")
        self.output_dense = layers.EinsumDense("bthd,hdc->btc", (None, dim), bias_axes="c", name="out")
        for d in (self.query_dense, self.key_dense, self.value_dense):
            d.build(input_shape)
        self.output_dense.build((None, None, self.num_heads, self.key_dim))
        self.norm = layers.LayerNormalization(epsilon=1e-6)
        self.norm.build(input_shape)
        self.drop = layers.Dropout(self.dropout)
        self.built = True

    def call(self, x, open_weeks=None, training=False):
        h = self.norm(x)
        q = self.query_dense(h) * self.key_dim ** -0.5
        k = self.key_dense(h)
        v = self.value_dense(h)

        logits = ops.einsum("bthd,bshd->bhts", q, k)
        weeks = ops.arange(ops.shape(x)[1])
        allowed = (weeks[:, None] >= weeks[None, :])[None]
        if open_weeks is not None:
            myself = (weeks[:, None] == weeks[None, :])[None]
            opened = ops.cast(open_weeks, "bool")[:, None, :]
            allowed = ops.logical_and(allowed, ops.logical_or(opened, myself))
        logits = ops.where(allowed[:, None], logits, -1e9)
        attn = ops.softmax(logits, axis=-1)
        attn = self.drop(attn, training=training)
        y = ops.einsum("bhts,bshd->bthd", attn, v)
        return x + self.output_dense(y)

    def get_config(self):
        base = super().get_config()
        return {**base, "num_heads": self.num_heads, "key_dim": self.key_dim, "dropout": self.dropout}

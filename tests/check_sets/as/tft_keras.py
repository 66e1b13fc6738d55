"""Temporal Fusion Transformer pieces for Keras 3.

Interpretable multi-head attention (Lim et al., 2019, section 4.4): the heads
have their own queries and keys, but *one* value projection is shared by all of
them, so that the mean of the head weights can be read as an importance.
"""
import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
from keras import layers, ops


class GatedLinearUnit(layers.Layer):
    def __init__(self, units, dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        self.lin = layers.Dense(units)
        self.gate = layers.Dense(units, activation="sigmoid")
        self.drop = layers.Dropout(dropout)

    def call(self, x, training=None):
        x = self.drop(x, training=training)
        return self.lin(x) * self.gate(x)


class InterpretableMultiHead(layers.Layer):
    """call(q, k, v, hide) -> (out, attn)

    hide: [batch or 1, q_len, k_len], 1 = hide, 0 = keep (see `decoder_mask`).
    attn: [batch, q_len, k_len], mean over heads.
    """

    def __init__(self, n_head, d_model, dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        self.n_head, self.d_k = n_head, d_model // n_head
        self.qs = [layers.Dense(self.d_k, use_bias=False, name=f"q{i}") for i in range(n_head)]
        self.ks = [layers.Dense(self.d_k, use_bias=False, name=f"k{i}") for i in range(n_head)]
        self.v_shared = layers.Dense(self.d_k, use_bias=False, name="v")
        self.w_o = layers.Dense(d_model, use_bias=False)
        self.drop = layers.Dropout(dropout)
        self.temperature = float(self.d_k) ** 0.5

    def call(self, q, k, v, hide=None, training=None):
        value = self.v_shared(v)
        maps, mixed = [], []
        for fq, fk in zip(self.qs, self.ks):
            logits = ops.matmul(fq(q), ops.transpose(fk(k), (0, 2, 1))) / self.temperature
            if hide is not None:
                logits = ops.where(ops.cast(hide, "bool"), -1e9, logits)
            a = ops.softmax(logits, axis=-1)
            maps.append(a)
            mixed.append(ops.matmul(self.drop(a, training=training), value))
        head = ops.mean(ops.stack(mixed), axis=0)
        attn = ops.mean(ops.stack(maps), axis=0)
        return self.w_o(head), attn


def decoder_mask(length):
    """1 above the diagonal: the future of each step."""
    i = ops.arange(length)
    return ops.cast(i[None, :] > i[:, None], "float32")[None]


class TemporalDecoder(layers.Layer):
    def __init__(self, n_head, d_model, dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        self.attn = InterpretableMultiHead(n_head, d_model, dropout)
        self.glu = GatedLinearUnit(d_model, dropout)
        self.norm = layers.LayerNormalization()

    def call(self, x, training=None):
        y, self_att = self.attn(x, x, x, hide=decoder_mask(x.shape[1]), training=training)
        return self.norm(x + self.glu(y, training=training)), self_att


def quantile_loss(quantiles):
    def loss(y_true, y_pred):
        total = 0.0
        for i, q in enumerate(quantiles):
            e = y_true - y_pred[..., i]
            total = total + ops.mean(ops.maximum(q * e, (q - 1) * e))
        return total
    return loss

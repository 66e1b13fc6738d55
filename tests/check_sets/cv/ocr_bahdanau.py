"""Handwriting OCR: attention decoder, Keras 3."""
import os
os.environ.setdefault("KERAS_BACKEND", "torch")
import keras
from keras import ops, layers


class AdditiveAttention(layers.Layer):
    """Bahdanau attention. call(state [B, S], columns [B, T, C]) -> context [B, C], weights [B, T]."""

    def __init__(self, units=12, **kw):
        super().__init__(**kw)
        self.W1, self.W2, self.V = layers.Dense(units), layers.Dense(units), layers.Dense(1)

    def call(self, state, columns):
        hid = self.W1(state)[:, None, :] + self.W2(columns)
        score = self.V(hid)
        w = ops.softmax(score, axis=1)
        return ops.sum(w * columns, axis=1), w[..., 0]


class OCRDecoder(layers.Layer):
    """call(columns [B, T, C], chars [B, N]) with teacher forcing: chars[:, n] is the input of step n.

    Returns logits [B, N, charset] and attention [B, N, T].
    """

    def __init__(self, charset=30, emb=8, units=16, **kw):
        super().__init__(**kw)
        self.units = units
        self.emb = layers.Embedding(charset, emb)
        self.att = AdditiveAttention(12)
        self.cell = layers.GRUCell(units)
        self.out = layers.Dense(charset)

    def call(self, columns, chars):
        h = ops.zeros((columns.shape[0], self.units))
        x = self.emb(chars)
        logits, maps = [], []
        for n in range(chars.shape[1]):
            ctx, w = self.att(h, columns)
            y, [h] = self.cell(ops.concatenate([ctx, x[:, n]], -1), [h])
            logits.append(self.out(ops.concatenate([y, ctx], -1)))
            maps.append(w)
        return ops.stack(logits, 1), ops.stack(maps, 1)

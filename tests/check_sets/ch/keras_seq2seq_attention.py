import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
from keras import layers, ops


class BahdanauAttention(layers.Layer):
    """Additive attention of the decoder over the encoder outputs.

    score(s, h_j) = v^T tanh(W1 h_j + W2 s)

    call(query, values, mask):
        query   (batch, dec_units) decoder state s
        values  (batch, src_len, enc_units) encoder outputs h
        mask    (batch, src_len), True for real words
    returns the context (batch, enc_units) and the weights (batch, src_len)
    """

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.W1 = layers.Dense(units)
        self.W2 = layers.Dense(units)
        self.V = layers.Dense(1)

    def call(self, query, values, mask=None):
        query_with_time_axis = ops.expand_dims(query, 1)
        score = self.V(self.W1(values) + self.W2(query_with_time_axis))
        score = ops.squeeze(score, axis=-1)
        if mask is not None:
            score = ops.where(ops.cast(mask, "bool"), score, -1e9)
        attention_weights = ops.softmax(score, axis=-1)
        context = ops.einsum("bs,bsd->bd", attention_weights, values)
        return context, attention_weights


class Decoder(layers.Layer):
    """One step: previous word (batch,), state (batch, units), enc_out (batch, src, enc)."""

    def __init__(self, vocab, emb=32, units=48, **kwargs):
        super().__init__(**kwargs)
        self.embedding = layers.Embedding(vocab, emb)
        self.attention = BahdanauAttention(units)
        self.cell = layers.GRUCell(units)
        self.fc = layers.Dense(vocab)

    def call(self, word, state, enc_out, mask=None):
        context, weights = self.attention(state, enc_out, mask=mask)
        x = ops.concatenate([context, self.embedding(word)], axis=-1)
        out, states = self.cell(x, [state])
        return self.fc(out), states[0], weights

"""Hierarchical attention network (Yang et al., 2016) for hotel reviews, Keras 3.

words -> BiGRU -> word attention -> sentence vectors -> BiGRU -> sentence attention -> stars
Word id 0 is padding; a sentence of nothing but zeros is padding too.
"""
import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import numpy as np  # noqa: E402
import keras  # noqa: E402
from keras import layers, ops  # noqa: E402


class ContextAttention(layers.Layer):
    """u_t = tanh(W h_t + b),  a_t = softmax_t(u_t . u_ctx),  s = sum_t a_t h_t

    There is one learned context vector and no dot-product scaling, as in the paper.
    inputs: h (n, time, dim), mask (n, time) with True for real entries.
    """

    def __init__(self, att_dim=50, **kw):
        super().__init__(**kw)
        self.att_dim = att_dim

    def build(self, input_shape):
        dim = input_shape[-1]
        self.W = self.add_weight(shape=(dim, self.att_dim), initializer="glorot_uniform", name="W")
        self.b = self.add_weight(shape=(self.att_dim,), initializer="zeros", name="b")
        self.u_ctx = self.add_weight(shape=(self.att_dim,), initializer="random_normal", name="u_ctx")

    def weights_of(self, h, mask=None):
        u = ops.tanh(ops.matmul(h, self.W) + self.b)
        e = ops.sum(u * self.u_ctx, axis=-1)
        if mask is None:
            return ops.softmax(e, axis=-1)
        m = ops.cast(mask, e.dtype)
        top = ops.max(ops.where(ops.cast(mask, "bool"), e, -1e30), axis=-1, keepdims=True)
        ex = ops.exp(ops.minimum(e - top, 0.0)) * m
        return ex / ops.maximum(ops.sum(ex, axis=-1, keepdims=True), keras.config.epsilon())

    def call(self, h, mask=None):
        a = self.weights_of(h, mask)
        return ops.sum(ops.expand_dims(a, -1) * h, axis=1)

    def compute_mask(self, inputs, mask=None):
        return None

    def compute_output_shape(self, input_shape):
        return (input_shape[0], input_shape[-1])

    def get_config(self):
        return {**super().get_config(), "att_dim": self.att_dim}


class HAN(keras.Model):
    def __init__(self, vocab, stars=5, emb=64, hidden=32, att_dim=50, **kw):
        super().__init__(**kw)
        self.hidden = hidden
        self.embed = layers.Embedding(vocab, emb)
        self.word_gru = layers.Bidirectional(layers.GRU(hidden, return_sequences=True))
        self.word_att = ContextAttention(att_dim)
        self.sent_gru = layers.Bidirectional(layers.GRU(hidden, return_sequences=True))
        self.sent_att = ContextAttention(att_dim)
        self.out = layers.Dense(stars, activation="softmax")

    def call(self, ids, training=None):
        n, s, w = ids.shape                                       # documents, sentences, words
        flat = ops.reshape(ids, (n * s, w))
        word_mask = ops.not_equal(flat, 0)
        h = self.word_gru(self.embed(flat), training=training)
        sent = self.word_att(h, mask=word_mask)
        sent = ops.reshape(sent, (n, s, 2 * self.hidden))
        sent_mask = ops.reshape(ops.any(word_mask, axis=-1), (n, s))
        g = self.sent_gru(sent, training=training)
        doc = self.sent_att(g, mask=sent_mask)
        return self.out(doc)


def pad_reviews(reviews, max_sent, max_word):
    out = np.zeros((len(reviews), max_sent, max_word), "int32")
    for i, review in enumerate(reviews):
        for j, sentence in enumerate(review[:max_sent]):
            out[i, j, :min(len(sentence), max_word)] = sentence[:max_word]
    return out


if __name__ == "__main__":
    x = pad_reviews([[[4, 5, 6], [7, 8]], [[9, 3]]], 3, 5)
    model = HAN(vocab=20)
    print(model(x).shape)

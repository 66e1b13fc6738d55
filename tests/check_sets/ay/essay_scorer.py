"""Automatic essay scoring with a hierarchical attention network (Yang et al., 2016).

words -> GRU -> word attention -> sentence vectors -> GRU -> sentence attention -> score
Keras 3; id 0 is padding for words, a sentence of zeros is padding for essays.
"""
import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np
from keras import layers, ops


@keras.saving.register_keras_serializable("essays")
class ContextAttention(layers.Layer):
    """u_t = tanh(W h_t + b);  a = softmax_t(u_t . u_ctx);  s = sum_t a_t h_t

    Call with `inputs` [batch, steps, features] and optionally `real`
    [batch, steps], True for steps that exist. Returns s, or (s, a) when
    `return_weights` is set. An input without any real step gives zeros.
    """

    def __init__(self, units=64, return_weights=False, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.return_weights = return_weights

    def build(self, input_shape):
        self.kernel = self.add_weight(name="kernel", shape=(input_shape[-1], self.units))
        self.bias = self.add_weight(name="bias", shape=(self.units,), initializer="zeros")
        self.context = self.add_weight(name="context", shape=(self.units, 1))
        self.built = True

    def call(self, inputs, real=None):
        u = ops.tanh(ops.matmul(inputs, self.kernel) + self.bias)
        logit = ops.matmul(u, self.context)                       # [batch, steps, 1]
        if real is not None:
            keep = ops.expand_dims(ops.cast(real, logit.dtype), -1)
            logit = logit - 1e9 * (1.0 - keep)
            a = ops.softmax(logit, axis=1) * keep
        else:
            a = ops.softmax(logit, axis=1)
        s = ops.sum(a * inputs, axis=1)
        if self.return_weights:
            return s, ops.squeeze(a, -1)
        return s

    def get_config(self):
        cfg = super().get_config()
        cfg.update(units=self.units, return_weights=self.return_weights)
        return cfg


class SentenceEncoder(layers.Layer):
    def __init__(self, vocab, dim=50, hidden=32, **kwargs):
        super().__init__(**kwargs)
        self.embed = layers.Embedding(vocab, dim)
        self.rnn = layers.Bidirectional(layers.GRU(hidden, return_sequences=True))
        self.attend = ContextAttention(hidden)

    def call(self, words):
        x = self.rnn(self.embed(words))
        return self.attend(x, real=ops.not_equal(words, 0))


class EssayScorer(keras.Model):
    """words [batch, sentences, words] -> score in [0, 1], shape [batch]."""

    def __init__(self, vocab, hidden=32, **kwargs):
        super().__init__(**kwargs)
        self.sentences = SentenceEncoder(vocab, hidden=hidden)
        self.rnn = layers.Bidirectional(layers.GRU(hidden, return_sequences=True))
        self.attend = ContextAttention(hidden, return_weights=True)
        self.out = layers.Dense(1, activation="sigmoid")

    def explain(self, words):
        b, s, w = words.shape
        vec = self.sentences(ops.reshape(words, (-1, w)))
        vec = ops.reshape(vec, (-1, s, vec.shape[-1]))
        doc, weights = self.attend(self.rnn(vec), real=ops.any(ops.not_equal(words, 0), axis=-1))
        return self.out(doc)[:, 0], weights

    def call(self, words):
        return self.explain(words)[0]


def quadratic_kappa(a, b, lo=0, hi=10):
    n = hi - lo + 1
    obs = np.zeros((n, n))
    for i, j in zip(a, b):
        obs[i - lo, j - lo] += 1
    w = (np.arange(n)[:, None] - np.arange(n)[None]) ** 2 / (n - 1) ** 2
    exp = np.outer(obs.sum(1), obs.sum(0)) / obs.sum()
    return 1 - (w * obs).sum() / (w * exp).sum()


def pad_essays(essays, n_sent, n_word):
    """essays: list of lists of lists of word ids."""
    out = np.zeros((len(essays), n_sent, n_word), dtype="int32")
    for i, essay in enumerate(essays):
        for j, sent in enumerate(essay[:n_sent]):
            out[i, j, :len(sent[:n_word])] = sent[:n_word]
    return out

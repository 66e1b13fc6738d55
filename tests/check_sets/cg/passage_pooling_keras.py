"""Query-aware pooling of legal passages, for the ranking head of the search service.

A passage is a sequence of token vectors.  The pooled vector is a weighted mean
whose weights come from additive scores against the query vector:

    score_t = v . tanh(W h_t + U q + b)

Padded tokens (``mask`` false) get no weight.
"""
import keras
from keras import ops


@keras.saving.register_keras_serializable(package="lex")
class PassagePooling(keras.layers.Layer):
    def __init__(self, units=24, return_weights=False, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.return_weights = return_weights

    def build(self, query_shape, tokens_shape, mask_shape=None):
        self.w_tok = self.add_weight(
            shape=(tokens_shape[-1], self.units), initializer="glorot_uniform", name="w_tok"
        )
        self.w_qry = self.add_weight(
            shape=(query_shape[-1], self.units), initializer="glorot_uniform", name="w_qry"
        )
        self.bias = self.add_weight(shape=(self.units,), initializer="zeros", name="bias")
        self.v = self.add_weight(shape=(self.units,), initializer="glorot_uniform", name="v")

    def call(self, query, tokens, mask=None):
        h = ops.matmul(tokens, self.w_tok)
        q = ops.expand_dims(ops.matmul(query, self.w_qry), 1)
        score = ops.sum(ops.tanh(h + q + self.bias) * self.v, axis=-1)
        if mask is not None:
            score = ops.where(ops.cast(mask, "bool"), score, -1e9)
        weight = ops.softmax(score, axis=-1)
        pooled = ops.sum(ops.expand_dims(weight, -1) * tokens, axis=1)
        if self.return_weights:
            return pooled, weight
        return pooled

    def get_config(self):
        cfg = super().get_config()
        cfg.update(units=self.units, return_weights=self.return_weights)
        return cfg


def build_ranker(dim=16, units=24):
    q = keras.Input((dim,), name="query")
    t = keras.Input((None, dim), name="tokens")
    m = keras.Input((None,), dtype="bool", name="mask")
    p = PassagePooling(units)(q, t, mask=m)
    score = keras.layers.Dense(1)(keras.layers.Concatenate()([q, p, q * p]))
    return keras.Model([q, t, m], score)

"""NRMS news recommendation in Keras 3: word-level self-attention, then additive pooling."""
import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras  # noqa: E402
from keras import layers, ops  # noqa: E402


class SelfAttention(layers.Layer):
    """Self-attention over [batch, words, dim] without output projection (as in NRMS).

    `mask` is a boolean [batch, words], True for real words; every title has one real word at least.
    """

    def __init__(self, heads, head_dim, **kw):
        super().__init__(**kw)
        self.heads, self.head_dim = heads, head_dim

    def build(self, input_shape):
        d, o = input_shape[-1], self.heads * self.head_dim
        self.WQ = self.add_weight(shape=(d, o), initializer="glorot_uniform", name="WQ")
        self.WK = self.add_weight(shape=(d, o), initializer="glorot_uniform", name="WK")
        self.WV = self.add_weight(shape=(d, o), initializer="glorot_uniform", name="WV")

    def split(self, x):
        s = ops.shape(x)
        return ops.transpose(ops.reshape(x, (s[0], s[1], self.heads, self.head_dim)), (0, 2, 1, 3))

    def call(self, x, mask=None):
        q, k, v = (self.split(ops.matmul(x, w)) for w in (self.WQ, self.WK, self.WV))
        s = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) / ops.sqrt(float(self.head_dim))
        if mask is not None:
            keep = ops.cast(mask, "bool")[:, None, None, :]
            s = ops.where(keep, s, ops.full_like(s, -1e30))
        p = ops.softmax(s, axis=-1)
        y = ops.transpose(ops.matmul(p, v), (0, 2, 1, 3))
        n = ops.shape(y)
        return ops.reshape(y, (n[0], n[1], self.heads * self.head_dim))


class Pool(layers.Layer):
    """alpha = softmax(q . tanh(W h + b)), one learned query q."""

    def __init__(self, hidden, **kw):
        super().__init__(**kw)
        self.inner = layers.Dense(hidden, activation="tanh")
        self.query = layers.Dense(1, use_bias=False)

    def call(self, x, mask=None):
        e = self.query(self.inner(x))[..., 0]
        if mask is not None:
            e = ops.where(ops.cast(mask, "bool"), e, ops.full_like(e, -1e30))
        a = ops.softmax(e, axis=-1)
        return ops.sum(x * a[..., None], axis=1)


class NewsEncoder(keras.Model):
    def __init__(self, vocab, dim=48, heads=4, head_dim=12, hidden=32):
        super().__init__()
        self.emb = layers.Embedding(vocab, dim)
        self.att = SelfAttention(heads, head_dim)
        self.pool = Pool(hidden)
        self.drop = layers.Dropout(0.2)

    def call(self, title, training=False):
        mask = ops.not_equal(title, 0)
        x = self.drop(self.emb(title), training=training)
        x = self.drop(self.att(x, mask=mask), training=training)
        return self.pool(x, mask=mask)


def click_scores(user_vec, candidates):
    """user_vec [B, d], candidates [B, n, d] -> probability over the n shown news."""
    return ops.softmax(ops.einsum("bd,bnd->bn", user_vec, candidates), axis=-1)

"""Clickbait detection on headlines, Keras 3 (any backend).

Token id 0 is padding.
"""
import keras
from keras import layers, ops


@keras.saving.register_keras_serializable("clickbait")
class HeadlineAttention(layers.Layer):
    """Multi-head self-attention over the words of a headline.

    inputs: (batch, words, dim)
    mask: (batch, words), True for real words; padding gets no attention
    """

    def __init__(self, num_heads, key_dim, **kw):
        super().__init__(**kw)
        self.num_heads = num_heads
        self.key_dim = key_dim

    def build(self, shape):
        dim = shape[-1]
        inner = self.num_heads * self.key_dim
        self.wq = self.add_weight(shape=(dim, inner), name="wq")
        self.wk = self.add_weight(shape=(dim, inner), name="wk")
        self.wv = self.add_weight(shape=(dim, inner), name="wv")
        self.wo = self.add_weight(shape=(inner, dim), name="wo")

    def _heads(self, t):
        n = ops.shape(t)[1]
        t = ops.reshape(t, (-1, n, self.num_heads, self.key_dim))
        return ops.transpose(t, (0, 2, 1, 3))

    def call(self, x, mask=None):
        q = self._heads(ops.matmul(x, self.wq))
        k = self._heads(ops.matmul(x, self.wk))
        v = self._heads(ops.matmul(x, self.wv))
        scores = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) / self.key_dim ** 0.5
        if mask is not None:
            bias = ops.cast(mask, scores.dtype)[:, None, None, :]
            scores = scores + bias
        w = ops.softmax(scores, axis=-1)
        y = ops.transpose(ops.matmul(w, v), (0, 2, 1, 3))
        y = ops.reshape(y, (-1, ops.shape(x)[1], self.num_heads * self.key_dim))
        return ops.matmul(y, self.wo)

    def get_config(self):
        return {**super().get_config(), "num_heads": self.num_heads, "key_dim": self.key_dim}


@keras.saving.register_keras_serializable("clickbait")
class MaskedMean(layers.Layer):
    def call(self, x, mask):
        m = ops.cast(mask, x.dtype)[..., None]
        return ops.sum(x * m, axis=1) / ops.maximum(ops.sum(m, axis=1), 1.0)


def build_model(vocab=8000, words=24, dim=64, heads=4, blocks=2):
    ids = keras.Input((words,), dtype="int32")
    mask = ids != 0
    x = layers.Embedding(vocab, dim)(ids)
    pos = layers.Embedding(words, dim)(ops.arange(words)[None])
    x = x + pos
    for _ in range(blocks):
        h = layers.LayerNormalization()(x)
        x = x + HeadlineAttention(heads, dim // heads)(h, mask=mask)
        h = layers.LayerNormalization()(x)
        x = x + layers.Dense(dim)(layers.Dense(2 * dim, activation="gelu")(h))
    out = layers.Dense(1, activation="sigmoid")(MaskedMean()(x, mask))
    model = keras.Model(ids, out)
    model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
    return model


def vectorize(headlines, vocab, words=24):
    rows = []
    for h in headlines:
        ids = [vocab.get(w, 1) for w in h.lower().split()][:words]
        rows.append(ids + [0] * (words - len(ids)))
    return rows

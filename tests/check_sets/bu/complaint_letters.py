"""Citizens' complaint letters -> department.  Keras 3, any backend."""
import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
from keras import ops

DEPARTMENTS = ("roads", "refuse", "parks", "noise", "taxes")


class LetterAttention(keras.layers.Layer):
    """Self-attention over the words of a letter.

    `mask` (batch, words), True for words, False for padding.  Padding must not
    be read by any word.
    """

    def __init__(self, num_heads=2, key_dim=8, **kwargs):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.supports_masking = True

    def build(self, shape):
        inner = self.num_heads * self.key_dim
        self.q_dense = keras.layers.Dense(inner)
        self.k_dense = keras.layers.Dense(inner)
        self.v_dense = keras.layers.Dense(inner)
        self.o_dense = keras.layers.Dense(shape[-1])
        for d in (self.q_dense, self.k_dense, self.v_dense):
            d.build(shape)
        self.o_dense.build((shape[0], shape[1], inner))

    def split(self, x):
        b, n = ops.shape(x)[0], ops.shape(x)[1]
        x = ops.reshape(x, (b, n, self.num_heads, self.key_dim))
        return ops.transpose(x, (0, 2, 1, 3))

    def call(self, x, mask=None):
        q, k, v = self.split(self.q_dense(x)), self.split(self.k_dense(x)), self.split(self.v_dense(x))
        s = ops.einsum("bhqd,bhkd->bhqk", q, k) * self.key_dim ** -0.5
        if mask is not None:
            m = ops.cast(mask, "bool")[:, None, :, None]
            s = ops.where(m, s, ops.full_like(s, -1e9))
        y = ops.einsum("bhqk,bhkd->bqhd", ops.softmax(s, axis=-1), v)
        y = ops.reshape(y, (ops.shape(x)[0], ops.shape(x)[1], self.num_heads * self.key_dim))
        return self.o_dense(y)


class MeanOfWords(keras.layers.Layer):
    def __init__(self, **kw):
        super().__init__(**kw)
        self.supports_masking = True

    def call(self, x, mask=None):
        if mask is None:
            return ops.mean(x, axis=1)
        m = ops.cast(mask, x.dtype)[..., None]
        return ops.sum(x * m, axis=1) / ops.maximum(ops.sum(m, axis=1), 1.0)

    def compute_mask(self, x, mask=None):
        return None


def build_router(vocab=500, words=20, dim=16):
    ids = keras.Input((words,), dtype="int32")
    h = keras.layers.Embedding(vocab, dim, mask_zero=True)(ids)
    h = keras.layers.Add()([h, LetterAttention()(h)])
    h = MeanOfWords()(keras.layers.LayerNormalization()(h))
    return keras.Model(ids, keras.layers.Dense(len(DEPARTMENTS), activation="softmax")(h))


if __name__ == "__main__":
    m = build_router()
    print(m.predict(ops.ones((2, 20), dtype="int32"), verbose=0).shape)

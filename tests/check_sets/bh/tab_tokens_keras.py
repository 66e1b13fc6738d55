"""FT-style tabular transformer in Keras 3 (any backend).

Every column becomes one token; a [CLS] token reads out the churn score.
Attention uses talking heads: a learned HxH mixing of the heads before and after
the softmax (so the *mixed* rows need not sum to one - that is by design).
"""
import keras
from keras import layers, ops


class ColumnTokenizer(layers.Layer):
    """x_num (B, F) -> tokens (B, F + 1, D); token 0 is [CLS]."""

    def __init__(self, n_features, dim, **kw):
        super().__init__(**kw)
        self.n_features, self.dim = n_features, dim

    def build(self, _):
        init = keras.initializers.RandomUniform(-self.dim ** -0.5, self.dim ** -0.5)
        self.w = self.add_weight(shape=(self.n_features, self.dim), initializer=init, name="w")
        self.b = self.add_weight(shape=(self.n_features, self.dim), initializer=init, name="b")
        self.cls = self.add_weight(shape=(1, 1, self.dim), initializer=init, name="cls")

    def call(self, x):
        tok = x[..., None] * self.w + self.b
        cls = ops.broadcast_to(self.cls, (ops.shape(x)[0], 1, self.dim))
        return ops.concatenate([cls, tok], axis=1)


@keras.saving.register_keras_serializable("tabtok")
class TalkingHeadsAttention(layers.Layer):
    """Self-attention over columns.

    call(x, missing=None): x (B, N, D); missing (B, N) bool, True where the
    column is empty and has to be ignored as a key.
    """

    def __init__(self, dim, heads, dropout=0.0, **kw):
        super().__init__(**kw)
        self.dim, self.heads, self.rate = dim, heads, dropout
        self.q = layers.Dense(dim, use_bias=False)
        self.k = layers.Dense(dim, use_bias=False)
        self.v = layers.Dense(dim, use_bias=False)
        self.o = layers.Dense(dim)
        self.drop = layers.Dropout(dropout)

    def build(self, shape):
        for d in (self.q, self.k, self.v, self.o):
            d.build((None, None, self.dim))
        eye = keras.initializers.Identity()
        self.pre = self.add_weight(shape=(self.heads, self.heads), initializer=eye, name="pre")
        self.post = self.add_weight(shape=(self.heads, self.heads), initializer=eye, name="post")

    def _split(self, t):
        n = ops.shape(t)[1]
        t = ops.reshape(t, (-1, n, self.heads, self.dim // self.heads))
        return ops.transpose(t, (0, 2, 1, 3))

    def call(self, x, missing=None, training=None):
        q, k, v = self._split(self.q(x)), self._split(self.k(x)), self._split(self.v(x))
        s = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) / (self.dim // self.heads) ** 0.5
        s = ops.einsum("bhij,hg->bgij", s, self.pre)
        if missing is not None:
            # masked after the mixing: -1e9 must not be mixed among heads
            s = ops.where(missing[:, None, None, :], -1e9, s)
        p = ops.softmax(s, axis=-1)
        p = ops.einsum("bhij,hg->bgij", p, self.post)
        p = self.drop(p, training=training)
        y = ops.transpose(ops.matmul(p, v), (0, 2, 1, 3))
        return self.o(ops.reshape(y, (-1, ops.shape(x)[1], self.dim)))

    def get_config(self):
        return {**super().get_config(), "dim": self.dim, "heads": self.heads, "dropout": self.rate}


def churn_model(n_features=12, dim=32, heads=4, depth=2):
    inp = keras.Input((n_features,))
    x = ColumnTokenizer(n_features, dim)(inp)
    for _ in range(depth):
        x = x + TalkingHeadsAttention(dim, heads)(layers.LayerNormalization()(x))
        h = layers.Dense(2 * dim, activation="gelu")(layers.LayerNormalization()(x))
        x = x + layers.Dense(dim)(h)
    return keras.Model(inp, layers.Dense(1, activation="sigmoid")(x[:, 0]))


if __name__ == "__main__":
    churn_model().summary()

"""Two-tower ranking model, user side (Keras 3, backend agnostic).

Conventions of this package: attention masks travel as *additive biases* made
by `make_bias`, i.e. 0.0 where a key may be read and -1e9 where it may not.
"""
import keras
from keras import layers, ops

NEG = -1e9


def make_bias(history):
    """history: int [B, L], 0 = empty slot -> float [B, 1, 1, L]."""
    empty = ops.cast(ops.equal(history, 0), "float32")
    return ops.reshape(empty * NEG, (ops.shape(history)[0], 1, 1, ops.shape(history)[1]))


@keras.saving.register_keras_serializable(package="ranking")
class HistoryAttention(layers.Layer):
    """Multi-head attention of candidate vectors over the user's history.

    call(cand [B, N, C], hist [B, L, C], bias [B, 1, 1, L] as of `make_bias`)
    """

    def __init__(self, heads=2, dim=16, **kw):
        super().__init__(**kw)
        self.heads, self.dim = heads, dim

    def build(self, cand_shape, hist_shape=None, bias_shape=None):
        c = cand_shape[-1]
        w = self.heads * self.dim
        self.wq = self.add_weight(shape=(c, w), initializer="glorot_uniform", name="wq")
        self.wk = self.add_weight(shape=(c, w), initializer="glorot_uniform", name="wk")
        self.wv = self.add_weight(shape=(c, w), initializer="glorot_uniform", name="wv")
        self.wo = self.add_weight(shape=(w, c), initializer="glorot_uniform", name="wo")

    def _split(self, x):
        x = ops.reshape(x, (ops.shape(x)[0], ops.shape(x)[1], self.heads, self.dim))
        return ops.transpose(x, (0, 2, 1, 3))

    def call(self, cand, hist, bias=None):
        q = self._split(ops.matmul(cand, self.wq))
        k = self._split(ops.matmul(hist, self.wk))
        v = self._split(ops.matmul(hist, self.wv))
        s = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) * (self.dim**-0.5)
        if bias is not None:
            s = ops.where(ops.cast(bias, "bool"), s, NEG)
        p = ops.softmax(s, axis=-1)
        y = ops.transpose(ops.matmul(p, v), (0, 2, 1, 3))
        y = ops.reshape(y, (ops.shape(y)[0], ops.shape(y)[1], self.heads * self.dim))
        return ops.matmul(y, self.wo)

    def get_config(self):
        return {**super().get_config(), "heads": self.heads, "dim": self.dim}


class UserTower(keras.Model):
    """Scores N candidates for one user, given the last L items."""

    def __init__(self, n_items, width=24, heads=2):
        super().__init__()
        self.emb = layers.Embedding(n_items + 1, width)
        self.att = HistoryAttention(heads, width // heads)
        self.norm = layers.LayerNormalization()
        self.score = keras.Sequential([layers.Dense(16, activation="relu"), layers.Dense(1)])

    def call(self, inputs):
        cand_ids, hist_ids = inputs
        cand, hist = self.emb(cand_ids), self.emb(hist_ids)
        ctx = self.att(cand, hist, make_bias(hist_ids))
        both = ops.concatenate([cand, self.norm(cand + ctx)], axis=-1)
        return ops.squeeze(self.score(both), axis=-1)


if __name__ == "__main__":
    m = UserTower(50)
    print(m((ops.ones((2, 3), "int32"), ops.ones((2, 5), "int32"))).shape)

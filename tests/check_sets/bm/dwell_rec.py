"""Next-article recommendation with dwell-time gaps (Keras 3, backend agnostic).

Time-interval aware self-attention (Li, Wang, McAuley 2020): the clipped gap
between two clicks adds an embedding to the key and to the value, next to
the absolute position embeddings:

    s_ij = q_i . (k_j + pk_j + rk_ij) / sqrt(d)        o_i = sum_j a_ij (v_j + pv_j + rv_ij)
"""
import keras
from keras import layers, ops


def gap_matrix(timestamps, unit=60.0, max_gap=64):
    """timestamps [b, n] in seconds -> clipped integer gaps [b, n, n]."""
    t = ops.cast(timestamps, "float32")
    gap = ops.floor(ops.abs(t[:, :, None] - t[:, None, :]) / unit)
    return ops.cast(ops.minimum(gap, max_gap), "int32")


@keras.saving.register_keras_serializable("dwell")
class DwellAttention(layers.Layer):
    """One layer, ``heads`` heads.

    call(x, gaps, present): x [b, n, dim]; gaps [b, n, n] int in 0..max_gap;
    present [b, n] bool, False for the (left) padding.  A click sees itself
    and earlier clicks, padding is never looked at; rows of the padding return 0.
    """

    def __init__(self, dim, heads=2, max_len=50, max_gap=64, **kw):
        super().__init__(**kw)
        self.dim, self.heads, self.max_len, self.max_gap = dim, heads, max_len, max_gap
        self.hd = dim // heads
        self.wq = layers.Dense(dim, use_bias=False, name="q")
        self.wk = layers.Dense(dim, use_bias=False, name="k")
        self.wv = layers.Dense(dim, use_bias=False, name="v")
        self.pk = layers.Embedding(max_len, dim, name="pos_k")
        self.pv = layers.Embedding(max_len, dim, name="pos_v")
        self.rk = layers.Embedding(max_gap + 1, dim, name="gap_k")
        self.rv = layers.Embedding(max_gap + 1, dim, name="gap_v")

    def get_config(self):
        return {**super().get_config(), "dim": self.dim, "heads": self.heads,
                "max_len": self.max_len, "max_gap": self.max_gap}

    def build(self, input_shape):
        for lay in (self.wq, self.wk, self.wv):
            lay.build(input_shape)
        for emb in (self.pk, self.pv, self.rk, self.rv):
            emb.build((None,))
        super().build(input_shape)

    def _split(self, x):
        return ops.reshape(x, ops.shape(x)[:-1] + (self.heads, self.hd))

    def call(self, x, gaps, present):
        n = x.shape[1]
        idx = ops.arange(n)
        q = self._split(self.wq(x))
        k = self._split(self.wk(x) + self.pk(idx))
        v = self._split(self.wv(x) + self.pv(idx))
        rk, rv = self._split(self.rk(gaps)), self._split(self.rv(gaps))   # b i j h d

        s = ops.einsum("bihd,bjhd->bhij", q, k) + ops.einsum("bihd,bijhd->bhij", q, rk)
        s = s / (self.hd ** 0.5)
        seen = ops.logical_and(idx[None, :] <= idx[:, None], present[:, None, :])[:, None]
        a = ops.softmax(ops.where(seen, s, -1e9), axis=-1)
        o = ops.einsum("bhij,bjhd->bihd", a, v) + ops.einsum("bhij,bijhd->bihd", a, rv)
        o = ops.reshape(o, (-1, n, self.dim))
        return o * ops.cast(present, o.dtype)[..., None]


def build_model(n_items, n=50, dim=32, blocks=2):
    items = layers.Input((n,), dtype="int32", name="items")
    stamps = layers.Input((n,), dtype="float32", name="stamps")
    present = layers.Lambda(lambda i: ops.not_equal(i, 0), output_shape=(n,))(items)
    gaps = layers.Lambda(gap_matrix, output_shape=(n, n))(stamps)
    x = layers.Embedding(n_items + 1, dim)(items)
    for _ in range(blocks):
        y = layers.LayerNormalization(epsilon=1e-6)(x)
        x = layers.Add()([x, DwellAttention(dim, max_len=n)(y, gaps, present)])
        y = layers.LayerNormalization(epsilon=1e-6)(x)
        x = layers.Add()([x, layers.Dense(dim)(layers.Dense(dim, activation="relu")(y))])
    return keras.Model([items, stamps], layers.Dense(n_items + 1)(x))

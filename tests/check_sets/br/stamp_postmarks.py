"""Reading postmarks: a Keras 3 encoder-decoder over strokes of a vectorised cancellation.

Masks in this package are *additive* everywhere: 0.0 where a stroke may be attended and
``BLOCKED`` where not, so that masks of different origin can simply be summed
(``padding_mask(n) + order_mask(n)``).
"""
import keras
from keras import layers, ops

BLOCKED = -1e9


def padding_mask(lengths, n):
    """lengths (batch,) -> (batch, 1, n)"""
    inside = ops.arange(n)[None] < ops.expand_dims(lengths, -1)
    return ops.where(inside, 0.0, BLOCKED)[:, None]


def order_mask(n):
    """A stroke may look at strokes drawn before it and at itself; (1, n, n)."""
    i = ops.arange(n)
    return ops.where(i[:, None] >= i[None], 0.0, BLOCKED)[None]


class StrokeAttention(layers.Layer):
    """Multi-head attention; ``additive_mask``: (batch | 1, n_query | 1, n_key).

    ``strokes`` are the queries, ``memory`` (default: the strokes) keys and values.
    """

    def __init__(self, units, heads, **kw):
        super().__init__(**kw)
        self.units, self.heads = units, heads
        self.size = units // heads
        self.wq = layers.Dense(units, name="wq")
        self.wk = layers.Dense(units, name="wk")
        self.wv = layers.Dense(units, name="wv")
        self.wo = layers.Dense(units, name="wo")

    def build(self, strokes_shape, memory_shape=None, additive_mask_shape=None):
        memory_shape = memory_shape or strokes_shape
        self.wq.build(strokes_shape)
        self.wk.build(memory_shape)
        self.wv.build(memory_shape)
        self.wo.build((*strokes_shape[:-1], self.units))
        self.built = True

    def call(self, strokes, memory=None, additive_mask=None):
        memory = strokes if memory is None else memory
        b, n, m = ops.shape(strokes)[0], ops.shape(strokes)[1], ops.shape(memory)[1]
        q = ops.reshape(self.wq(strokes), (b, n, self.heads, self.size))
        k = ops.reshape(self.wk(memory), (b, m, self.heads, self.size))
        v = ops.reshape(self.wv(memory), (b, m, self.heads, self.size))
        scores = ops.einsum("bnhd,bmhd->bhnm", q, k) / ops.sqrt(float(self.size))
        if additive_mask is not None:
            allowed = ops.cast(additive_mask, "bool")
            scores = ops.where(ops.expand_dims(allowed, 1), scores, BLOCKED)
        weights = ops.softmax(scores, axis=-1)
        y = ops.einsum("bhnm,bmhd->bnhd", weights, v)
        return self.wo(ops.reshape(y, (b, n, self.units)))


class PostmarkLayer(layers.Layer):
    def __init__(self, units, heads, **kw):
        super().__init__(**kw)
        self.self_att = StrokeAttention(units, heads)
        self.cross_att = StrokeAttention(units, heads)
        self.n1, self.n2, self.n3 = (layers.LayerNormalization() for _ in range(3))
        self.ff = keras.Sequential([layers.Dense(2 * units, activation="relu"), layers.Dense(units)])

    def call(self, x, memory, self_mask=None, memory_mask=None):
        h = self.n1(x)
        x = x + self.self_att(h, additive_mask=self_mask)
        x = x + self.cross_att(self.n2(x), memory, additive_mask=memory_mask)
        return x + self.ff(self.n3(x))


class TownReader(keras.Model):
    """Strokes (batch, n, 5: dx, dy, pressure, pen, arc) -> letters of the town name."""

    def __init__(self, letters=30, units=32, heads=4, name_length=12, **kw):
        super().__init__(**kw)
        self.enc = layers.Dense(units)
        self.letter = layers.Embedding(letters, units)
        self.place = layers.Embedding(name_length, units)
        self.layer = PostmarkLayer(units, heads)
        self.head = layers.Dense(letters)

    def call(self, strokes, lengths, letters):
        n, m = ops.shape(letters)[1], ops.shape(strokes)[1]
        x = self.letter(letters) + self.place(ops.arange(n))[None]
        y = self.layer(x, self.enc(strokes), order_mask(n), padding_mask(lengths, m))
        return self.head(y)


if __name__ == "__main__":
    import numpy as np

    r = np.random.default_rng(0)
    out = TownReader()(r.normal(size=(2, 9, 5)).astype("float32"), np.array([9, 5]), r.integers(0, 30, (2, 6)))
    print(out.shape)

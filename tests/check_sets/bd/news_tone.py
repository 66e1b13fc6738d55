"""Tone classification of German news headlines (Keras 3)."""
import keras
from keras import layers, ops


@keras.saving.register_keras_serializable("news")
class HeadlineAttention(layers.Layer):
    """Multi-Head-Self-Attention mit Dropout auf den Gewichten (nur im Training).

    padding: bool [B, T], True = echtes Wort; jede Überschrift hat mindestens eines.
    """

    def __init__(self, heads=4, rate=0.1, seed=None, **kw):
        super().__init__(**kw)
        self.heads = heads
        self.rate = rate
        self.seed_gen = keras.random.SeedGenerator(seed)

    def build(self, shape):
        dim = shape[-1]
        self.dh = dim // self.heads
        mk = lambda n, b: self.add_weight(shape=(dim, dim), initializer="glorot_uniform", name=n) if b else None
        self.wq, self.wk, self.wv, self.wo = (mk(n, True) for n in ("wq", "wk", "wv", "wo"))
        self.bo = self.add_weight(shape=(dim,), initializer="zeros", name="bo")

    def _heads(self, x, w):
        b, t, d = ops.shape(x)
        return ops.transpose(ops.reshape(ops.matmul(x, w), (b, t, self.heads, self.dh)), (0, 2, 1, 3))

    def call(self, x, padding=None, training=False):
        b, t, d = ops.shape(x)
        q, k, v = self._heads(x, self.wq), self._heads(x, self.wk), self._heads(x, self.wv)
        s = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) / ops.sqrt(ops.cast(self.dh, x.dtype))
        if padding is not None:
            keep = ops.cast(padding[:, None, None, :], "bool")
            s = ops.where(keep, s, ops.full_like(s, -1e9))
        a = ops.softmax(s, axis=-1)
        if self.rate > 0:
            a = keras.random.dropout(a, self.rate, seed=self.seed_gen)
        y = ops.transpose(ops.matmul(a, v), (0, 2, 1, 3))
        return ops.matmul(ops.reshape(y, (b, t, d)), self.wo) + self.bo

    def get_config(self):
        return {**super().get_config(), "heads": self.heads, "rate": self.rate}


class Encoder(layers.Layer):
    def __init__(self, dim=32, heads=4, rate=0.1, **kw):
        super().__init__(**kw)
        self.att = HeadlineAttention(heads, rate)
        self.n1, self.n2 = layers.LayerNormalization(), layers.LayerNormalization()
        self.f1, self.f2 = layers.Dense(4 * dim, activation="gelu"), layers.Dense(dim)
        self.drop = layers.Dropout(rate)

    def call(self, x, padding=None, training=False):
        x = x + self.att(self.n1(x), padding=padding, training=training)
        return x + self.drop(self.f2(self.f1(self.n2(x))), training=training)


class ToneModel(keras.Model):
    def __init__(self, vocab=1000, dim=32, depth=2, classes=3):
        super().__init__()
        self.emb = layers.Embedding(vocab, dim)
        self.enc = [Encoder(dim) for _ in range(depth)]
        self.out = layers.Dense(classes, activation="softmax")

    def call(self, ids, training=False):
        keep = ops.not_equal(ids, 0)
        x = self.emb(ids)
        for e in self.enc:
            x = e(x, padding=keep, training=training)
        m = ops.cast(keep[..., None], x.dtype)
        return self.out(ops.sum(x * m, axis=1) / ops.sum(m, axis=1))


if __name__ == "__main__":
    print(ToneModel()(ops.convert_to_tensor([[4, 8, 15, 0], [16, 23, 0, 0]])))

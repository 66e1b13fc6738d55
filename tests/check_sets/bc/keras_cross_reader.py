"""News headline generator: Keras 3 self-attentive reader of the article."""
import keras
from keras import layers, ops


def padding_mask(ids):
    """1.0 for words, 0.0 for padding (id 0)."""
    return ops.cast(ops.not_equal(ids, 0), "float32")


class ArticleReader(layers.Layer):
    """Self-attention over article words.

    call(x, mask): x (batch, words, dim); mask (batch, words) as from padding_mask:
    no word reads a padding word.
    """

    def __init__(self, dim, num_heads=4, **kwargs):
        super().__init__(**kwargs)
        self.dim = dim
        self.num_heads = num_heads
        self.depth = dim // num_heads
        self.wq = layers.Dense(dim, name="wq")
        self.wk = layers.Dense(dim, name="wk")
        self.wv = layers.Dense(dim, name="wv")
        self.dense = layers.Dense(dim, name="dense")

    def build(self, shape):
        for l in (self.wq, self.wk, self.wv, self.dense):
            l.build((None, None, self.dim))
        self.built = True

    def split_heads(self, t):
        s = ops.shape(t)
        t = ops.reshape(t, (s[0], s[1], self.num_heads, self.depth))
        return ops.transpose(t, (0, 2, 1, 3))

    def call(self, x, mask=None):
        q = self.split_heads(self.wq(x))
        k = self.split_heads(self.wk(x))
        v = self.split_heads(self.wv(x))
        logits = ops.einsum("bhqd,bhkd->bhqk", q, k) / ops.sqrt(float(self.depth))
        if mask is not None:
            mask = ops.expand_dims(ops.expand_dims(mask, 1), 3)
            logits = logits + (1.0 - mask) * -1e9
        weights = ops.softmax(logits, axis=-1)
        out = ops.transpose(ops.matmul(weights, v), (0, 2, 1, 3))
        s = ops.shape(out)
        return self.dense(ops.reshape(out, (s[0], s[1], self.dim)))


class Reader(keras.Model):
    def __init__(self, vocab, dim=32):
        super().__init__()
        self.emb = layers.Embedding(vocab, dim)
        self.att = ArticleReader(dim)
        self.norm = layers.LayerNormalization()

    def call(self, ids):
        x = self.emb(ids)
        return self.norm(x + self.att(x, mask=padding_mask(ids)))

"""Essay scoring (Kaggle LEAP), small Keras 3 encoder. Token id 0 is padding.

Positions: PE[pos, 2i] = sin(pos / 10000^(2i/d)), PE[pos, 2i+1] = cos(pos / 10000^(2i/d)).
Padded tokens are hidden from every query.
"""
import keras
import numpy as np
from keras import layers, ops


def positional_encoding(length, depth):
    pos = np.arange(length)[:, np.newaxis]
    i = np.arange(depth)[np.newaxis, :]
    angle_rates = 1 / np.power(10000, (2 * i) / np.float32(depth))
    angle_rads = pos * angle_rates
    angle_rads[:, 0::2] = np.sin(angle_rads[:, 0::2])
    angle_rads[:, 1::2] = np.cos(angle_rads[:, 1::2])
    return angle_rads[np.newaxis].astype("float32")


class EssayEncoder(layers.Layer):
    """embedding + positions + one post-norm self-attention block"""

    def __init__(self, vocab, dim=64, heads=4, maxlen=512, rate=0.1, **kw):
        super().__init__(**kw)
        self.dim, self.heads = dim, heads
        self.tok = layers.Embedding(vocab, dim)
        self.pe = positional_encoding(maxlen, dim)
        self.wq, self.wk, self.wv, self.wo = (layers.Dense(dim) for _ in range(4))
        self.ffn = keras.Sequential([layers.Dense(4 * dim, activation="relu"), layers.Dense(dim)])
        self.ln1, self.ln2 = layers.LayerNormalization(epsilon=1e-6), layers.LayerNormalization(epsilon=1e-6)
        self.drop1, self.drop2 = layers.Dropout(rate), layers.Dropout(rate)

    def build(self, input_shape):
        hid = (*input_shape, self.dim)
        self.tok.build(input_shape)
        for l in (self.wq, self.wk, self.wv, self.wo, self.ffn, self.ln1, self.ln2):
            l.build(hid)
        self.built = True

    def split_heads(self, x):
        n = ops.shape(x)[1]
        x = ops.reshape(x, (-1, n, self.heads, self.dim // self.heads))
        return ops.transpose(x, (0, 2, 1, 3))

    def self_attention(self, x, mask):
        """mask [B, T]: 1.0 for words, 0.0 for padding"""
        q, k, v = self.split_heads(self.wq(x)), self.split_heads(self.wk(x)), self.split_heads(self.wv(x))
        scores = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2)))
        scores = scores / float(self.dim // self.heads) ** 0.5
        scores = scores * mask[:, None, None, :]
        weights = ops.softmax(scores, axis=-1)
        y = ops.transpose(ops.matmul(weights, v), (0, 2, 1, 3))
        return self.wo(ops.reshape(y, (-1, ops.shape(x)[1], self.dim)))

    def call(self, ids, training=False):
        mask = ops.cast(ops.not_equal(ids, 0), "float32")
        x = self.tok(ids) * float(self.dim) ** 0.5
        x = x + self.pe[:, : ids.shape[1], :]
        x = self.ln1(x + self.drop1(self.self_attention(x, mask), training=training))
        return self.ln2(x + self.drop2(self.ffn(x), training=training))


def build(vocab=2000, maxlen=128, dim=64):
    ids = keras.Input((maxlen,), dtype="int32")
    x = EssayEncoder(vocab, dim, maxlen=maxlen)(ids)
    x = layers.GlobalAveragePooling1D()(x)
    model = keras.Model(ids, layers.Dense(1)(x))
    model.compile("adam", "mse")
    return model


def qwk(a, b, lo=1, hi=6):
    n = hi - lo + 1
    O = np.zeros((n, n))
    for i, j in zip(a, b):
        O[int(i) - lo, int(j) - lo] += 1
    W = (np.subtract.outer(np.arange(n), np.arange(n)) / (n - 1)) ** 2
    E = np.outer(O.sum(1), O.sum(0)) / O.sum()
    return 1 - (W * O).sum() / (W * E).sum()

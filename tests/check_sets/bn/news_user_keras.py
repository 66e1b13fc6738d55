"""ニュース推薦 (NAML / NRMS 風)、Keras 3。

単語 -> 記事ベクトル -> 利用者ベクトル の二段階で同じ集約層を使う。
"""
import keras
from keras import layers, ops


@keras.saving.register_keras_serializable(package="newsrec")
class AdditivePooling(layers.Layer):
    """加法的注意による集約。

        a_i = q^T tanh(V h_i + v),   alpha = softmax(a),   r = sum_i alpha_i h_i

    入力 (..., L, D)、マスク (..., L) は True が有効な要素。
    全要素が無効な行は零ベクトルになる。
    """

    def __init__(self, units=32, **kw):
        super().__init__(**kw)
        self.units = units
        self.supports_masking = True

    def build(self, shape):
        d = shape[-1]
        self.V = self.add_weight(shape=(d, self.units), initializer="glorot_uniform", name="V")
        self.v = self.add_weight(shape=(self.units,), initializer="zeros", name="v")
        self.q = self.add_weight(shape=(self.units,), initializer="random_normal", name="q")

    def compute_mask(self, inputs, mask=None):
        return None

    def call(self, h, mask=None):
        a = ops.tanh(ops.matmul(h, self.V) + self.v)
        a = ops.sum(a * self.q, axis=-1)
        if mask is None:
            w = ops.exp(a - ops.max(a, axis=-1, keepdims=True))
        else:
            mask = ops.cast(mask, "bool")
            low = ops.where(mask, a, ops.full_like(a, -1e30))
            top = ops.max(low, axis=-1, keepdims=True)
            w = ops.where(mask, ops.exp(low - top), ops.zeros_like(a))
        w = w / ops.maximum(ops.sum(w, axis=-1, keepdims=True), 1e-12)
        return ops.sum(h * w[..., None], axis=-2)

    def get_config(self):
        return {**super().get_config(), "units": self.units}


class NewsEncoder(keras.Model):
    def __init__(self, vocab, dim=32, **kw):
        super().__init__(**kw)
        self.emb = layers.Embedding(vocab, dim)
        self.conv = layers.Conv1D(dim, 3, padding="same", activation="relu")
        self.pool = AdditivePooling(24)

    def call(self, title):
        # title: (B, W) 整数、0 は空白
        return self.pool(self.conv(self.emb(title)), mask=ops.not_equal(title, 0))


class UserModel(keras.Model):
    """履歴の記事から利用者を表し、候補記事に点を付ける"""

    def __init__(self, vocab=500, dim=32, **kw):
        super().__init__(**kw)
        self.news = NewsEncoder(vocab, dim)
        self.pool = AdditivePooling(24)

    def encode_many(self, titles):
        b, n, w = ops.shape(titles)
        flat = self.news(ops.reshape(titles, (b * n, w)))
        return ops.reshape(flat, (b, n, -1))

    def call(self, inputs):
        history, candidates = inputs                      # (B, N, W), (B, C, W)
        clicked = ops.any(ops.not_equal(history, 0), axis=-1)
        user = self.pool(self.encode_many(history), mask=clicked)
        cand = self.encode_many(candidates)
        return ops.sum(cand * user[:, None, :], axis=-1)   # (B, C)


def listwise_loss(y_true, scores):
    """一つの正例と k 個の負例"""
    return -ops.mean(ops.sum(y_true * ops.log_softmax(scores, axis=-1), axis=-1))


def mrr(scores, labels):
    order = ops.argsort(-scores, axis=-1)
    hit = ops.take_along_axis(labels, order, axis=-1)
    rank = 1.0 / ops.cast(ops.argmax(hit, axis=-1) + 1, "float32")
    return ops.mean(rank)


if __name__ == "__main__":
    import numpy as np
    r = np.random.default_rng(0)
    m = UserModel()
    print(m((r.integers(0, 500, (2, 6, 9)), r.integers(1, 500, (2, 4, 9)))).shape)

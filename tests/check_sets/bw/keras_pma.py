"""Sepet tahmini icin Keras katmani: Pooling by Multihead Attention (Set Transformer).

Bir kullanicinin sepetindeki urunler (degisken sayida, Embedding mask_zero=True)
`num_seeds` adet ogrenilen sorgu ile tek bir temsile indirilir. Bos sepet icin
dikkat ciktisi sifirdir.
"""
import math

import keras
from keras import layers, ops


@keras.saving.register_keras_serializable(package="sepet")
class PoolingByAttention(layers.Layer):
    def __init__(self, num_seeds=2, num_heads=2, key_dim=8, **kw):
        super().__init__(**kw)
        self.num_seeds, self.num_heads, self.key_dim = num_seeds, num_heads, key_dim
        self.supports_masking = True

    def build(self, input_shape):
        units = self.num_heads * self.key_dim
        self.seeds = self.add_weight(
            name="seeds", shape=(self.num_seeds, units), initializer="glorot_uniform")
        self.key = layers.Dense(units, use_bias=False, name="key")
        self.value = layers.Dense(units, use_bias=False, name="value")
        self.out = layers.Dense(units, name="out")
        self.norm = layers.LayerNormalization(name="norm")
        self.key.build(input_shape)
        self.value.build(input_shape)
        self.out.build((None, self.num_seeds, units))
        self.norm.build((None, self.num_seeds, units))
        self.built = True

    def _heads(self, t, n):
        t = ops.reshape(t, (-1, n, self.num_heads, self.key_dim))
        return ops.transpose(t, (0, 2, 1, 3))

    def call(self, x, mask=None):
        n = ops.shape(x)[1]
        q = self._heads(self.seeds, self.num_seeds)          # 1, h, s, d
        k, v = self._heads(self.key(x), n), self._heads(self.value(x), n)
        s = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) / math.sqrt(self.key_dim)
        if mask is not None:
            m = ops.cast(mask, "bool")[:, None, None, :]
            s = ops.where(m, s, -1e9)
            w = ops.where(m, ops.softmax(s, axis=-1), 0.0)   # bos sepet -> 0
        else:
            w = ops.softmax(s, axis=-1)
        y = ops.transpose(ops.matmul(w, v), (0, 2, 1, 3))
        y = ops.reshape(y, (-1, self.num_seeds, self.num_heads * self.key_dim))
        return self.norm(self.seeds + self.out(y))

    def compute_mask(self, inputs, mask=None):
        return None

    def compute_output_shape(self, input_shape):
        return (input_shape[0], self.num_seeds, self.num_heads * self.key_dim)

    def get_config(self):
        c = super().get_config()
        c.update(num_seeds=self.num_seeds, num_heads=self.num_heads, key_dim=self.key_dim)
        return c


def build_model(n_items=50, emb=12):
    inp = keras.Input((None,), dtype="int32")
    x = layers.Embedding(n_items, emb, mask_zero=True)(inp)
    x = PoolingByAttention()(x)
    x = layers.Flatten()(x)
    return keras.Model(inp, layers.Dense(n_items, activation="softmax")(x))


if __name__ == "__main__":
    import numpy as np
    model = build_model()
    print(model(np.array([[3, 8, 1, 0, 0], [4, 4, 9, 7, 2]])).shape)

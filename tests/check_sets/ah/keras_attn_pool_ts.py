"""Attention pooling for the child-sleep accelerometer series (Keras 3).

Sequences are zero padded; the mask says True for real minutes.
"""
import keras
from keras import layers, ops


class SeqAttentionPool(layers.Layer):
    """K learned seed queries read the series; returns [batch, seeds * units]."""

    def __init__(self, seeds=2, heads=4, key_dim=16, **kw):
        super().__init__(**kw)
        self.seeds, self.heads, self.key_dim = seeds, heads, key_dim
        self.supports_masking = True

    def build(self, input_shape):
        f = int(input_shape[-1])
        u = self.heads * self.key_dim
        self.seed = self.add_weight(shape=(self.seeds, self.heads, self.key_dim), initializer="glorot_uniform", name="seed")
        self.wk = self.add_weight(shape=(f, self.heads, self.key_dim), initializer="glorot_uniform", name="wk")
        self.wv = self.add_weight(shape=(f, self.heads, self.key_dim), initializer="glorot_uniform", name="wv")
        self.wo = self.add_weight(shape=(u, u), initializer="glorot_uniform", name="wo")

    def call(self, x, mask=None):
        k = ops.einsum("btf,fhd->bthd", x, self.wk)
        v = ops.einsum("btf,fhd->bthd", x, self.wv)
        logits = ops.einsum("shd,bthd->bhst", self.seed, k) / float(self.key_dim) ** 0.5
        if mask is not None:
            keep = ops.cast(mask, logits.dtype)[:, None, None, :]
            logits = logits - (1.0 - keep) * 1e9
        w = ops.softmax(logits, axis=-1)
        z = ops.einsum("bhst,bthd->bshd", w, v)
        z = ops.reshape(z, (-1, self.seeds, self.heads * self.key_dim))
        z = ops.matmul(z, self.wo)
        return ops.reshape(z, (-1, self.seeds * self.heads * self.key_dim))

    def compute_mask(self, inputs, mask=None):
        return None

    def compute_output_shape(self, input_shape):
        return (input_shape[0], self.seeds * self.heads * self.key_dim)

    def get_config(self):
        return {**super().get_config(), "seeds": self.seeds, "heads": self.heads, "key_dim": self.key_dim}


def residual_gru(x, units, rate=0.1):
    y = layers.Bidirectional(layers.GRU(units, return_sequences=True))(x)
    y = layers.Dropout(rate)(layers.Dense(x.shape[-1])(y))
    return layers.LayerNormalization()(layers.Add()([x, y]))


def build_model(steps=None, n_feat=4, width=32):
    inp = keras.Input((steps, n_feat))
    x = layers.Masking(0.0)(inp)
    x = layers.Dense(width, activation="gelu")(x)
    x = residual_gru(x, width)
    x = SeqAttentionPool(2, 4, 8)(x)
    x = layers.Dropout(0.2)(x)
    return keras.Model(inp, layers.Dense(2, activation="sigmoid")(x))


if __name__ == "__main__":
    build_model(60).summary()

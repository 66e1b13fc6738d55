"""Caption decoder: words look at image regions (Keras 3)."""
import os
os.environ.setdefault("KERAS_BACKEND", "torch")
import keras
from keras import ops


class WordToRegion(keras.layers.Layer):
    """Multi-head scaled dot-product cross attention with residual and layer norm.

    call(words, regions, region_mask=None)
      words [B, T, units], regions [B, R, any], region_mask [B, R] with 1 for a detected region
      (at least one a picture) and 0 for filler.
    -> [B, T, units]
    """

    def __init__(self, units=32, num_heads=4, **kw):
        super().__init__(**kw)
        self.units, self.num_heads, self.depth = units, num_heads, units // num_heads
        self.wq = keras.layers.Dense(units)
        self.wk = keras.layers.Dense(units)
        self.wv = keras.layers.Dense(units)
        self.dense = keras.layers.Dense(units)
        self.norm = keras.layers.LayerNormalization(epsilon=1e-6)

    def split(self, x):
        x = ops.reshape(x, (x.shape[0], x.shape[1], self.num_heads, self.depth))
        return ops.transpose(x, (0, 2, 1, 3))

    def call(self, words, regions, region_mask=None):
        q, k, v = self.split(self.wq(words)), self.split(self.wk(regions)), self.split(self.wv(regions))
        logits = ops.einsum("bhtd,bhrd->bhtr", q, k) / self.units ** 0.5
        if region_mask is not None:
            m = ops.cast(region_mask, logits.dtype)[:, None, None, :]
            logits = logits + (1.0 - m) * -1e9
        w = ops.softmax(logits, axis=-1)
        ctx = ops.transpose(ops.einsum("bhtr,bhrd->bhtd", w, v), (0, 2, 1, 3))
        ctx = ops.reshape(ctx, (words.shape[0], words.shape[1], self.units))
        return self.norm(words + self.dense(ctx))

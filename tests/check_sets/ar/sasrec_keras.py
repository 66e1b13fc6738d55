"""SASRec (Kang & McAuley 2018) for MovieLens, Keras 3, any backend.

Item id 0 is padding; sequences are padded at the left.
"""
import os
os.environ.setdefault("KERAS_BACKEND", "jax")
import keras
from keras import layers, ops


class CausalSelfAttention(layers.Layer):
    def __init__(self, units, heads, dropout=0.2, **kw):
        super().__init__(**kw)
        self.units, self.heads, self.depth = units, heads, units // heads
        self.wq = layers.Dense(units, name="wq")
        self.wk = layers.Dense(units, name="wk")
        self.wv = layers.Dense(units, name="wv")
        self.drop = layers.Dropout(dropout)

    def _heads(self, t):
        b, n = ops.shape(t)[0], ops.shape(t)[1]
        return ops.transpose(ops.reshape(t, (b, n, self.heads, self.depth)), (0, 2, 1, 3))

    def call(self, x, item_mask=None, training=False):
        """x (B, N, units); item_mask bool (B, N), True for real items"""
        b, n = ops.shape(x)[0], ops.shape(x)[1]
        q, k, v = self._heads(self.wq(x)), self._heads(self.wk(x)), self._heads(self.wv(x))
        logits = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2)))
        logits = logits / ops.sqrt(ops.cast(self.depth, logits.dtype))
        steps = ops.arange(n)
        allowed = (steps[:, None] >= steps[None, :])[None, None]
        if item_mask is not None:
            allowed = ops.logical_and(allowed, item_mask[:, None, None, :])
        logits = ops.where(allowed, logits, ops.cast(-1e30, logits.dtype))
        att = ops.softmax(logits, axis=-1)
        # a padded position has no one to look at: zeros, as in the original code
        att = ops.where(allowed, att, 0.0)
        att = self.drop(att, training=training)
        out = ops.transpose(ops.matmul(att, v), (0, 2, 1, 3))
        return ops.reshape(out, (b, n, self.units))


class SASRecBlock(layers.Layer):
    def __init__(self, units, heads, dropout, **kw):
        super().__init__(**kw)
        self.ln1, self.ln2 = layers.LayerNormalization(epsilon=1e-8), layers.LayerNormalization(epsilon=1e-8)
        self.att = CausalSelfAttention(units, heads, dropout)
        self.ff1, self.ff2 = layers.Dense(units, activation="relu"), layers.Dense(units)
        self.drop = layers.Dropout(dropout)

    def call(self, x, item_mask, training=False):
        x = x + self.att(self.ln1(x), item_mask=item_mask, training=training)
        x = x + self.drop(self.ff2(self.ff1(self.ln2(x))), training=training)
        return x * ops.cast(item_mask, x.dtype)[..., None]


class SASRec(keras.Model):
    def __init__(self, n_items, max_len=50, units=32, heads=2, blocks=2, dropout=0.2):
        super().__init__()
        self.items = layers.Embedding(n_items + 1, units)
        self.pos = layers.Embedding(max_len, units)
        self.blocks = [SASRecBlock(units, heads, dropout) for _ in range(blocks)]
        self.ln = layers.LayerNormalization(epsilon=1e-8)

    def call(self, ids, training=False):
        mask = ops.not_equal(ids, 0)
        x = self.items(ids) + self.pos(ops.arange(ops.shape(ids)[1]))[None]
        for blk in self.blocks:
            x = blk(x, mask, training=training)
        return ops.matmul(self.ln(x), ops.transpose(self.items.embeddings))


if __name__ == "__main__":
    import numpy as np
    print(SASRec(20, 6)(np.array([[0, 0, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6]])).shape)

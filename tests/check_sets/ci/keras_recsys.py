"""Session recommender in Keras 3: multi-head scaled dot-product over the clicked items."""
import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
from keras import layers, ops


class SessionAttention(layers.Layer):
    """items (B, L, dim), clicked (B, L) bool (True = real click, >= 1 per session)."""

    def __init__(self, dim, heads, **kw):
        super().__init__(**kw)
        self.dim, self.heads, self.depth = dim, heads, dim // heads
        self.scale = self.depth ** -0.5
        self.wq = layers.Dense(dim)
        self.wk = layers.Dense(dim)
        self.wv = layers.Dense(dim)
        self.wo = layers.Dense(dim)

    def split_heads(self, x):
        """(B, L, dim) -> (B, heads, L, depth)"""
        B, L = ops.shape(x)[0], ops.shape(x)[1]
        return ops.reshape(x, (B, self.heads, L, self.depth))

    def call(self, items, clicked):
        B, L = ops.shape(items)[0], ops.shape(items)[1]
        q = self.split_heads(self.wq(items))
        k = self.split_heads(self.wk(items))
        v = self.split_heads(self.wv(items))
        logits = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) / self.scale
        logits = ops.where(ops.cast(clicked, "bool")[:, None, None, :], logits, -1e9)
        weights = ops.softmax(logits, axis=-1)
        out = ops.transpose(ops.matmul(weights, v), (0, 2, 1, 3))
        return self.wo(ops.reshape(out, (B, L, self.dim)))


class SessionModel(keras.Model):
    """items (B, L) int ids, 0 = padding -> scores for the next item, (B, n_items)"""

    def __init__(self, n_items=60, dim=16, heads=2, **kw):
        super().__init__(**kw)
        self.emb = layers.Embedding(n_items, dim)
        self.attn = SessionAttention(dim, heads)
        self.ln = layers.LayerNormalization(epsilon=1e-5)
        self.out = layers.Dense(n_items)

    def call(self, items):
        clicked = ops.not_equal(items, 0)
        x = self.emb(items)
        x = self.ln(x + self.attn(x, clicked))
        keep = ops.cast(clicked, x.dtype)[..., None]
        mean = ops.sum(x * keep, axis=1) / ops.maximum(ops.sum(keep, axis=1), 1.0)
        return self.out(mean)

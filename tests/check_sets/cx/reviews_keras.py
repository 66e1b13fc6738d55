import os

os.environ.setdefault("KERAS_BACKEND", "torch")
import keras
from keras import layers, ops


class ReviewAttention(layers.Layer):
    """Multi-head self-attention for hotel reviews.

    inputs [B, L, D], padding [B, L] bool (True = padding, optional; at least one word per review).
    Each position's head outputs are concatenated (head 0 first) and go through a Dense layer.
    """

    def __init__(self, dim, heads, **kw):
        super().__init__(**kw)
        self.dim, self.heads = dim, heads
        self.q, self.k, self.v = (layers.Dense(dim, use_bias=False) for _ in range(3))
        self.final = layers.Dense(dim)

    def to_heads(self, t):
        b, l, _ = t.shape
        t = ops.reshape(t, (b, l, self.heads, self.dim // self.heads))
        return ops.transpose(t, (0, 2, 1, 3))

    def call(self, inputs, padding=None):
        q, k, v = (self.to_heads(f(inputs)) for f in (self.q, self.k, self.v))
        depth = self.dim // self.heads
        logits = ops.matmul(q, ops.swapaxes(k, -1, -2)) / depth ** 0.5
        if padding is not None:
            logits = ops.where(padding[:, None, None, :], float("-inf"), logits)
        probs = ops.softmax(logits, axis=-1)
        mixed = ops.matmul(probs, v)
        merged = ops.reshape(mixed, (inputs.shape[0], inputs.shape[1], self.dim))
        return self.final(merged)

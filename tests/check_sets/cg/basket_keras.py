"""Next-basket model: the current basket attends to the earlier baskets (Keras 3).

Standard multi-head scaled dot-product cross attention, written out so that the
exported graph contains only matmul, softmax and add.
"""
import math

import keras
from keras import layers, ops


class BasketAttention(layers.Layer):
    def __init__(self, dim=48, num_heads=3, **kwargs):
        super().__init__(**kwargs)
        if dim % num_heads:
            raise ValueError(f"dim={dim} is not a multiple of num_heads={num_heads}")
        self.dim = dim
        self.num_heads = num_heads
        self.scale = 1.0 / math.sqrt(num_heads)
        self.q_dense = layers.Dense(dim)
        self.k_dense = layers.Dense(dim)
        self.v_dense = layers.Dense(dim)
        self.out_dense = layers.Dense(dim)

    def split(self, x):
        shape = ops.shape(x)
        x = ops.reshape(x, (shape[0], shape[1], self.num_heads, self.dim // self.num_heads))
        return ops.transpose(x, (0, 2, 1, 3))

    def call(self, current, earlier, earlier_mask):
        """current [B, I, dim]; earlier [B, J, dim]; earlier_mask [B, J], 1 = real basket."""
        q = self.split(self.q_dense(current))
        k = self.split(self.k_dense(earlier))
        v = self.split(self.v_dense(earlier))
        scores = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) * self.scale
        drop = 1.0 - ops.cast(earlier_mask, scores.dtype)
        scores = scores - 1e9 * drop[:, None, None, :]
        probs = ops.softmax(scores, axis=-1)
        ctx = ops.transpose(ops.matmul(probs, v), (0, 2, 1, 3))
        ctx = ops.reshape(ctx, (ops.shape(ctx)[0], ops.shape(ctx)[1], self.dim))
        return self.out_dense(ctx)

    def get_config(self):
        return {**super().get_config(), "dim": self.dim, "num_heads": self.num_heads}


class NextBasket(keras.Model):
    def __init__(self, n_items=100, dim=48, num_heads=3):
        super().__init__()
        self.items = layers.Embedding(n_items, dim)
        self.attention = BasketAttention(dim, num_heads)
        self.norm = layers.LayerNormalization()
        self.logits = layers.Dense(n_items)

    def call(self, inputs):
        current = self.items(inputs["current"])
        earlier = ops.mean(self.items(inputs["earlier"]), axis=2)  # items of one basket
        x = self.norm(current + self.attention(current, earlier, inputs["earlier_mask"]))
        return self.logits(ops.mean(x, axis=1))

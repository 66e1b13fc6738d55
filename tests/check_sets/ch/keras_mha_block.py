import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
from keras import layers, ops


class MultiHeadSelfAttention(layers.Layer):
    """Multi-head self-attention for variable length sequences.

    inputs (batch, seq, embed_dim); mask (batch, seq), True = token, False =
    padding which no token should attend to. Each head works on its own slice of
    embed_dim / num_heads projected features of every token.
    """

    def __init__(self, embed_dim, num_heads=4, **kwargs):
        super().__init__(**kwargs)
        if embed_dim % num_heads != 0:
            raise ValueError("embed_dim must be a multiple of num_heads")
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.projection_dim = embed_dim // num_heads
        self.query_dense = layers.Dense(embed_dim)
        self.key_dense = layers.Dense(embed_dim)
        self.value_dense = layers.Dense(embed_dim)
        self.combine_heads = layers.Dense(embed_dim)

    def separate_heads(self, x, batch_size):
        return ops.reshape(x, (batch_size, self.num_heads, -1, self.projection_dim))

    def attention(self, query, key, value, mask):
        score = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2)))
        scaled_score = score / self.projection_dim ** 0.5
        if mask is not None:
            mask = ops.cast(mask, scaled_score.dtype)
            scaled_score = scaled_score + mask[:, None, None, :]
        weights = ops.softmax(scaled_score, axis=-1)
        return ops.matmul(weights, value)

    def call(self, inputs, mask=None):
        batch_size = ops.shape(inputs)[0]
        seq_len = ops.shape(inputs)[1]
        query = self.separate_heads(self.query_dense(inputs), batch_size)
        key = self.separate_heads(self.key_dense(inputs), batch_size)
        value = self.separate_heads(self.value_dense(inputs), batch_size)

        attention = self.attention(query, key, value, mask)
        attention = ops.transpose(attention, (0, 2, 1, 3))
        concat = ops.reshape(attention, (batch_size, seq_len, self.embed_dim))
        return self.combine_heads(concat)

"""Small causal language model with Keras 3 layers."""
import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
from keras import layers, ops


@keras.saving.register_keras_serializable("ci")
class DecoderBlock(layers.Layer):
    def __init__(self, dim, heads, rate=0.1, **kw):
        super().__init__(**kw)
        self.mha = layers.MultiHeadAttention(num_heads=heads, key_dim=dim // heads, dropout=rate)
        self.ln1 = layers.LayerNormalization(epsilon=1e-5)
        self.ln2 = layers.LayerNormalization(epsilon=1e-5)
        self.ff = keras.Sequential([layers.Dense(4 * dim, activation="gelu"), layers.Dense(dim)])
        self.drop = layers.Dropout(rate)

    def call(self, x, training=None):
        h = self.ln1(x)
        h = self.mha(h, h, use_causal_mask=True, training=training)
        x = x + self.drop(h, training=training)
        return x + self.drop(self.ff(self.ln2(x)), training=training)


class KerasLM(keras.Model):
    """tokens (B, T) int -> logits (B, T, vocab); a token never sees later tokens."""

    def __init__(self, vocab=50, dim=32, heads=4, depth=2, max_len=64, **kw):
        super().__init__(**kw)
        self.tok = layers.Embedding(vocab, dim)
        self.pos = layers.Embedding(max_len, dim)
        self.stack = [DecoderBlock(dim, heads) for _ in range(depth)]
        self.ln = layers.LayerNormalization(epsilon=1e-5)
        self.head = layers.Dense(vocab)

    def call(self, tokens, training=None):
        x = self.tok(tokens) + self.pos(ops.arange(ops.shape(tokens)[1]))
        for block in self.stack:
            x = block(x, training=training)
        return self.head(self.ln(x))

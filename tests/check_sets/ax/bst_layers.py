"""Behaviour sequence transformer for the click model (Keras 3).

The candidate item is appended to the click history; id 0 means "no click here".
"""
import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
from keras import layers, ops


@keras.saving.register_keras_serializable("ctr")
class BehaviourAttention(layers.Layer):
    """Multi head self attention over one user's clicks.

    inputs: [batch, steps, dim]; clicked: [batch, steps] bool, True = a real click.
    Every click may look at every other (the sequence is over when we score it).
    """

    def __init__(self, num_heads=4, rate=0.0, **kw):
        super().__init__(**kw)
        self.num_heads, self.rate = num_heads, rate
        self.drop = layers.Dropout(rate)

    def build(self, input_shape):
        dim = input_shape[-1]
        if dim % self.num_heads:
            raise ValueError(f"{dim} is not a multiple of {self.num_heads}")
        self.head_dim = dim // self.num_heads
        shape = (dim, self.num_heads, self.head_dim)
        self.wq = self.add_weight(shape=shape, name="wq", initializer="glorot_uniform")
        self.wk = self.add_weight(shape=shape, name="wk", initializer="glorot_uniform")
        self.wv = self.add_weight(shape=shape, name="wv", initializer="glorot_uniform")
        self.wo = self.add_weight(shape=(self.num_heads, self.head_dim, dim), name="wo", initializer="glorot_uniform")
        self.built = True

    def call(self, inputs, clicked=None, training=False):
        q = ops.einsum("btd,dhk->bthk", inputs, self.wq)
        k = ops.einsum("btd,dhk->bthk", inputs, self.wk)
        v = ops.einsum("btd,dhk->bthk", inputs, self.wv)
        logits = ops.einsum("bqhk,bshk->bhqs", q, k) / (self.head_dim ** 0.5)
        if clicked is not None:
            ok = ops.cast(clicked, "bool")[:, None, None, :]
            logits = ops.where(ok, logits, ops.full_like(logits, -1e30))
        p = self.drop(ops.softmax(logits, axis=-1), training=training)
        return ops.einsum("bhqs,bshk,hkd->bqd", p, v, self.wo)

    def get_config(self):
        return {**super().get_config(), "num_heads": self.num_heads, "rate": self.rate}


@keras.saving.register_keras_serializable("ctr")
class BSTBlock(layers.Layer):
    def __init__(self, num_heads=4, rate=0.1, **kw):
        super().__init__(**kw)
        self.num_heads, self.rate = num_heads, rate
        self.att = BehaviourAttention(num_heads, rate)
        self.n1, self.n2 = layers.LayerNormalization(), layers.LayerNormalization()
        self.drop = layers.Dropout(rate)

    def build(self, input_shape):
        dim = input_shape[-1]
        self.att.build(input_shape)
        self.n1.build(input_shape)
        self.n2.build(input_shape)
        self.ff1, self.ff2 = layers.Dense(4 * dim, activation="leaky_relu"), layers.Dense(dim)
        self.ff1.build(input_shape)
        self.ff2.build((*input_shape[:-1], 4 * dim))
        self.built = True

    def call(self, x, clicked=None, training=False):
        x = self.n1(x + self.drop(self.att(x, clicked, training=training), training=training))
        return self.n2(x + self.drop(self.ff2(self.ff1(x)), training=training))


class ClickModel(keras.Model):
    def __init__(self, n_items, history=20, dim=32, heads=4, blocks=1):
        super().__init__()
        self.items = layers.Embedding(n_items + 1, dim)
        self.times = layers.Embedding(history + 1, dim)
        self.blocks = [BSTBlock(heads) for _ in range(blocks)]
        self.mlp = keras.Sequential([layers.Dense(64, activation="relu"), layers.Dense(1, activation="sigmoid")])

    def call(self, batch, training=False):
        seq = ops.concatenate([batch["history"], batch["item"][:, None]], axis=1)
        clicked = seq > 0
        x = self.items(seq) + self.times(ops.arange(seq.shape[1]))
        for b in self.blocks:
            x = b(x, clicked, training=training)
        keep = ops.cast(clicked, x.dtype)[..., None]
        mean = ops.sum(x * keep, axis=1) / ops.maximum(ops.sum(keep, axis=1), 1.0)
        return self.mlp(ops.concatenate([mean, x[:, -1]], axis=-1))

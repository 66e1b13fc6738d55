"""AutoInt for click-through prediction (Song et al., CIKM 2019), Keras 3.

Every field of an impression (user, ad, site, hour, ...) becomes one embedding;
the interacting layers let the fields of the same impression attend to each other.
"""
import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
from keras import layers, ops


class FieldEmbedding(layers.Layer):
    """All fields share one table, ids are shifted by the field offset."""

    def __init__(self, field_sizes, dim, **kw):
        super().__init__(**kw)
        self.field_sizes = list(field_sizes)
        self.dim = dim

    def build(self, input_shape):
        self.table = self.add_weight(shape=(sum(self.field_sizes), self.dim),
                                     initializer="glorot_uniform", name="table")
        off, offsets = 0, []
        for n in self.field_sizes:
            offsets.append(off)
            off += n
        self.offsets = offsets

    def call(self, ids):
        return ops.take(self.table, ids + ops.convert_to_tensor([self.offsets], dtype=ids.dtype), axis=0)


class InteractingLayer(layers.Layer):
    """Multi-head self-attention over the fields of an impression.

    in  [batch, fields, dim]
    out [batch, fields, num_heads * head_dim], heads side by side in the last axis
    """

    def __init__(self, head_dim=16, num_heads=2, use_res=True, **kw):
        super().__init__(**kw)
        self.head_dim = head_dim
        self.num_heads = num_heads
        self.use_res = use_res

    def build(self, input_shape):
        d, units = input_shape[-1], self.head_dim * self.num_heads
        mk = lambda name: self.add_weight(shape=(d, units), initializer="glorot_uniform", name=name)
        self.w_query = mk("query")
        self.w_key = mk("key")
        self.w_value = mk("value")
        if self.use_res:
            self.w_res = mk("res")

    def call(self, x):
        h = self.num_heads
        n, f = ops.shape(x)[0], ops.shape(x)[1]
        q = ops.matmul(x, self.w_query)
        k = ops.matmul(x, self.w_key)
        v = ops.matmul(x, self.w_value)

        # heads go into the batch axis
        q = ops.concatenate(ops.split(q, h, axis=2), axis=0)
        k = ops.concatenate(ops.split(k, h, axis=2), axis=0)
        v = ops.concatenate(ops.split(v, h, axis=2), axis=0)

        logits = ops.matmul(q, ops.transpose(k, (0, 2, 1))) / self.head_dim ** 0.5
        weights = ops.softmax(logits, axis=-1)
        out = ops.matmul(weights, v)

        # and back next to each other
        out = ops.reshape(out, (n, h, f, self.head_dim))
        out = ops.reshape(ops.transpose(out, (0, 2, 1, 3)), (n, f, h * self.head_dim))

        if self.use_res:
            out = out + ops.matmul(x, self.w_res)
        return ops.relu(out)

    def get_config(self):
        return {**super().get_config(), "head_dim": self.head_dim,
                "num_heads": self.num_heads, "use_res": self.use_res}


def build_autoint(field_sizes, dim=16, n_layers=3, num_heads=2, head_dim=16, mlp=(64, 32)):
    ids = keras.Input(shape=(len(field_sizes),), dtype="int32", name="fields")
    e = FieldEmbedding(field_sizes, dim)(ids)
    a = e
    for i in range(n_layers):
        a = InteractingLayer(head_dim, num_heads, name=f"interact_{i}")(a)
    deep = layers.Flatten()(e)
    for width in mlp:
        deep = layers.Dense(width, activation="relu")(deep)
        deep = layers.Dropout(0.1)(deep)
    both = layers.Concatenate()([layers.Flatten()(a), deep])
    click = layers.Dense(1, activation="sigmoid", name="click")(both)
    model = keras.Model(ids, click)
    model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="binary_crossentropy",
                  metrics=[keras.metrics.AUC(name="auc")])
    return model


if __name__ == "__main__":
    build_autoint([100, 50, 24, 7]).summary()

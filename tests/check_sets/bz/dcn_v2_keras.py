"""Deep & Cross Network V2 (Wang et al., 2021) with a mixture of low-rank cross experts, Keras 3.

    x_{l+1} = sum_i G_i(x_l) * [ x_0 * (U_i g(C_i g(V_i^T x_l)) + b) ] + x_l

The gates G_i are a softmax over the experts computed from x_l alone.
Used for ranking on a classifieds site: 12 categorical fields and a few numbers.
"""
import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
from keras import layers, ops


class CrossNetMix(layers.Layer):
    def __init__(self, num_layers=2, num_experts=3, rank=4, **kwargs):
        super().__init__(**kwargs)
        self.num_layers, self.num_experts, self.rank = num_layers, num_experts, rank

    def build(self, input_shape):
        d = input_shape[-1]
        e, r = self.num_experts, self.rank
        self.U, self.V, self.C, self.b, self.gate = [], [], [], [], []
        for i in range(self.num_layers):
            self.U.append(self.add_weight(shape=(e, r, d), name=f"U{i}"))
            self.V.append(self.add_weight(shape=(e, d, r), name=f"V{i}"))
            self.C.append(self.add_weight(shape=(e, r, r), name=f"C{i}"))
            self.b.append(self.add_weight(shape=(d,), initializer="zeros", name=f"b{i}"))
            self.gate.append(self.add_weight(shape=(d, e), name=f"gate{i}"))

    def call(self, x0):
        x = x0
        for U, V, C, b, gate in zip(self.U, self.V, self.C, self.b, self.gate):
            g = ops.softmax(ops.matmul(x, gate), axis=-1)            # (batch, experts)
            z = ops.tanh(ops.einsum("bd,edr->ber", x, V))
            z = ops.tanh(ops.einsum("ber,erk->bek", z, C))
            z = ops.einsum("ber,erd->bed", z, U) + b
            experts = ops.expand_dims(x0, 1) * z
            x = ops.sum(ops.expand_dims(g, -1) * experts, axis=1) + x
        return x


def build_ranker(cardinalities, n_numeric, dim=8, hidden=(32, 16)):
    cats = keras.Input((len(cardinalities),), dtype="int32", name="cats")
    nums = keras.Input((n_numeric,), name="nums")
    parts = [nums]
    for i, n in enumerate(cardinalities):
        parts.append(layers.Embedding(n, dim)(cats[:, i]))
    x = layers.Concatenate()(parts)
    cross = CrossNetMix()(x)
    deep = x
    for h in hidden:
        deep = layers.Dense(h, activation="relu")(deep)
    out = layers.Dense(1, activation="sigmoid")(layers.Concatenate()([cross, deep]))
    return keras.Model([cats, nums], out)


if __name__ == "__main__":
    import numpy as np

    m = build_ranker([5, 7, 3], 2)
    print(m([np.zeros((4, 3), "int32"), np.random.rand(4, 2).astype("float32")]))

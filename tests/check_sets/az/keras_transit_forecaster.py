"""Passenger-flow forecasting for bus lines (Keras 3, any backend).

Each sample is a history of up to `steps` quarter hours for one line.  Lines that opened
recently have shorter histories: `observed` is 1 where a count was observed, 0 where not.
"""
import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras  # noqa: E402
from keras import layers, ops  # noqa: E402


@keras.saving.register_keras_serializable("transit")
class FoldedAttention(layers.Layer):
    """Multi-head self-attention with the heads folded into the batch axis.

    Call with [values, observed]: values (batch, steps, units), observed (batch, steps).
    Steps that were not observed get no attention, whichever line and head it is.
    """

    def __init__(self, units, heads=4, dropout=0.1, **kw):
        super().__init__(**kw)
        if units % heads:
            raise ValueError("units must be divisible by heads")
        self.units, self.heads, self.rate = units, heads, dropout
        self.q = layers.Dense(units, use_bias=False, name="q")
        self.k = layers.Dense(units, use_bias=False, name="k")
        self.v = layers.Dense(units, use_bias=False, name="v")
        self.o = layers.Dense(units, name="o")
        self.drop = layers.Dropout(dropout)

    def build(self, input_shape):
        value_shape = tuple(input_shape[0])
        for d in (self.q, self.k, self.v, self.o):
            d.build(value_shape[:-1] + (self.units,) if d is self.o else value_shape)
        self.built = True

    def fold(self, x):
        # (batch, steps, units) -> (heads * batch, steps, units / heads)
        return ops.concatenate(ops.split(x, self.heads, axis=-1), axis=0)

    def unfold(self, x):
        return ops.concatenate(ops.split(x, self.heads, axis=0), axis=-1)

    def call(self, inputs, training=None):
        x, observed = inputs
        q, k, v = self.fold(self.q(x)), self.fold(self.k(x)), self.fold(self.v(x))
        scores = ops.matmul(q, ops.transpose(k, (0, 2, 1)))
        scores = scores / ops.sqrt(ops.cast(self.units // self.heads, scores.dtype))
        keep = ops.cast(ops.repeat(observed, self.heads, axis=0), "bool")
        scores = ops.where(ops.expand_dims(keep, 1), scores, -1e9)
        att = self.drop(ops.softmax(scores, axis=-1), training=training)
        return self.o(self.unfold(ops.matmul(att, v)))

    def compute_output_shape(self, input_shape):
        return tuple(input_shape[0][:-1]) + (self.units,)

    def get_config(self):
        return {**super().get_config(), "units": self.units, "heads": self.heads, "dropout": self.rate}


def encoder(x, observed, units, heads, dropout):
    h = layers.LayerNormalization()(x)
    x = x + FoldedAttention(units, heads, dropout)([h, observed])
    h = layers.LayerNormalization()(x)
    h = layers.Dense(units * 2, activation="gelu")(h)
    return x + layers.Dense(units)(h)


def build_model(steps=48, features=5, horizon=8, units=32, heads=4, depth=2, dropout=0.1):
    values = keras.Input((steps, features), name="values")
    observed = keras.Input((steps,), name="observed")
    x = layers.Dense(units)(values)
    x = x + layers.Embedding(steps, units)(ops.arange(steps))[None]
    for _ in range(depth):
        x = encoder(x, observed, units, heads, dropout)
    w = ops.expand_dims(observed, -1)
    pooled = ops.sum(x * w, axis=1) / ops.maximum(ops.sum(w, axis=1), 1.0)
    out = layers.Dense(horizon, activation="softplus", name="flow")(pooled)
    model = keras.Model([values, observed], out)
    model.compile(keras.optimizers.Adam(1e-3), loss="poisson")
    return model


if __name__ == "__main__":
    import numpy as np

    rng = np.random.default_rng(0)
    model = build_model()
    obs = (np.arange(48)[None] >= rng.integers(0, 40, (16, 1))).astype("float32")
    vals = rng.normal(size=(16, 48, 5)).astype("float32") * obs[..., None]
    model.fit([vals, obs], rng.poisson(3, (16, 8)), epochs=1, verbose=0)
    print(model.predict([vals[:2], obs[:2]], verbose=0).shape)

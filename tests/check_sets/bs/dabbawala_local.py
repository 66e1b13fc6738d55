"""Arrival times of lunch boxes: Keras 3 model over the stops of one dabbawala's round.

Every stop looks at its ``radius`` neighbours on both sides and at itself (2 * radius + 1 stops).
All query heads share one key/value head (multi-query).  Logits are soft-capped before the
mask is applied.
"""
import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
from keras import ops


@keras.saving.register_keras_serializable("dabbawala")
class LocalMultiQuery(keras.layers.Layer):
    def __init__(self, num_heads, head_dim, radius=2, cap=20.0, **kw):
        super().__init__(**kw)
        self.num_heads, self.head_dim = num_heads, head_dim
        self.radius, self.cap = radius, cap
        self.supports_masking = True

    def build(self, input_shape):
        c = input_shape[-1]
        self.wq = self.add_weight(shape=(c, self.num_heads, self.head_dim), name="wq")
        self.wkv = self.add_weight(shape=(c, 2, self.head_dim), name="wkv")
        self.wo = self.add_weight(shape=(self.num_heads, self.head_dim, c), name="wo")

    def call(self, x, mask=None):
        """x (batch, stops, c); mask (batch, stops) as Keras passes it: True = real stop."""
        q = ops.einsum("blc,chd->bhld", x, self.wq)
        k, v = ops.unstack(ops.einsum("blc,cnd->nbld", x, self.wkv), num=2, axis=0)
        logits = ops.einsum("bhld,bmd->bhlm", q, k) * (self.head_dim ** -0.5)
        if self.cap:
            logits = self.cap * ops.tanh(logits / self.cap)
        i = ops.arange(ops.shape(x)[1])
        near = ops.abs(i[:, None] - i[None, :]) <= self.radius
        allowed = near[None, None]
        if mask is not None:
            allowed = ops.logical_and(allowed, ops.cast(mask, "bool")[:, None, None, :])
        logits = ops.where(allowed, ops.cast(logits, "float32"), -1e30)
        # a padded stop may have no real neighbour at all -> zeros
        w = ops.softmax(logits, axis=-1) * ops.cast(ops.any(allowed, axis=-1, keepdims=True), "float32")
        y = ops.einsum("bhlm,bmd->bhld", ops.cast(w, v.dtype), v)
        return ops.einsum("bhld,hdc->blc", y, self.wo)

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        cfg = super().get_config()
        cfg.update(num_heads=self.num_heads, head_dim=self.head_dim, radius=self.radius, cap=self.cap)
        return cfg


def build_model(features=7, width=24, layers=2):
    stops = keras.Input((None, features), name="stops")
    x = keras.layers.Masking(mask_value=-1.0)(stops)
    x = keras.layers.Dense(width)(x)
    for i in range(layers):
        h = keras.layers.LayerNormalization()(x)
        h = LocalMultiQuery(4, 6, radius=2 + i, name=f"local_{i}")(h)
        x = keras.layers.Add()([x, h])
        h = keras.layers.Dense(2 * width, activation="gelu")(x)
        x = keras.layers.Add()([x, keras.layers.Dense(width)(h)])
    minutes = keras.layers.Dense(1, activation="softplus", name="minutes")(x)
    return keras.Model(stops, minutes)


if __name__ == "__main__":
    import numpy as np

    rng = np.random.default_rng(0)
    r = rng.random((2, 9, 7)).astype("float32")
    r[1, 6:] = -1.0
    model = build_model()
    model.summary()
    print(model(r).shape)

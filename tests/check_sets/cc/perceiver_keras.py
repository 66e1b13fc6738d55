"""Perceiver cross-attention as a Keras 3 layer.

A small learned array of latents reads a long input.  Works on any backend since
only keras.ops is used.  ``mask`` follows Keras: True = use this step.
"""
import keras
from keras import ops


class LatentCrossAttention(keras.layers.Layer):
    def __init__(self, num_latents, units, heads=4, **kwargs):
        super().__init__(**kwargs)
        if units % heads:
            raise ValueError("units must be divisible by heads")
        self.num_latents = num_latents
        self.units = units
        self.heads = heads
        self.head_units = units // heads
        self.supports_masking = True

    def build(self, input_shape):
        self.latents = self.add_weight(
            name="latents",
            shape=(self.num_latents, self.units),
            initializer=keras.initializers.TruncatedNormal(stddev=0.5),
        )
        self.norm_in = keras.layers.LayerNormalization(epsilon=1e-5)
        self.norm_lat = keras.layers.LayerNormalization(epsilon=1e-5)
        self.to_q = keras.layers.Dense(self.units, use_bias=False)
        self.to_kv = keras.layers.Dense(2 * self.units, use_bias=False)
        self.to_out = keras.layers.Dense(self.units)
        self.norm_in.build(input_shape)
        self.norm_lat.build((None, self.num_latents, self.units))
        self.to_q.build((None, self.num_latents, self.units))
        self.to_kv.build(input_shape)
        self.to_out.build((None, self.num_latents, self.units))
        super().build(input_shape)

    def _heads(self, t):
        b, n = ops.shape(t)[0], ops.shape(t)[1]
        t = ops.reshape(t, (b, n, self.heads, self.head_units))
        return ops.transpose(t, (0, 2, 1, 3))

    def call(self, inputs, mask=None):
        b = ops.shape(inputs)[0]
        lat = ops.broadcast_to(self.latents[None], (b, self.num_latents, self.units))
        x = self.norm_in(inputs)
        q = self._heads(self.to_q(self.norm_lat(lat)))
        k, v = ops.split(self.to_kv(x), 2, axis=-1)
        k, v = self._heads(k), self._heads(v)

        logits = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2)))
        logits = logits * self.head_units ** -0.5
        if mask is not None:
            keep = ops.cast(mask, "bool")[:, None, None, :]
            logits = ops.where(keep, logits, -1e9)
        weights = ops.softmax(logits, axis=-1)

        y = ops.transpose(ops.matmul(weights, v), (0, 2, 1, 3))
        y = ops.reshape(y, (b, self.num_latents, self.units))
        return lat + self.to_out(y)

    def compute_mask(self, inputs, mask=None):
        return None

"""Hierarchical Attention Networks (Yang et al. 2016), the attention layer for Keras 3."""
import keras
from keras import ops


class AttentionPooling(keras.layers.Layer):
    """u_t = tanh(W h_t + b), a_t = softmax(u_t . u_w), s = sum_t a_t h_t

    Input (batch, steps, features), output (batch, features). If the layer before sends
    a mask (batch, steps), its False steps get no weight.
    """

    def __init__(self, units=16, return_attention=False, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.return_attention = return_attention
        self.supports_masking = True

    def build(self, input_shape):
        self.W = self.add_weight(shape=(input_shape[-1], self.units), initializer="glorot_uniform", name="W")
        self.b = self.add_weight(shape=(self.units,), initializer="zeros", name="b")
        self.u = self.add_weight(shape=(self.units,), initializer="random_normal", name="u")

    def call(self, x, mask=None):
        uit = ops.tanh(ops.matmul(x, self.W) + self.b)
        ait = ops.sum(uit * self.u, axis=-1)
        if mask is not None:
            ait = ops.where(mask, ait, -1e9)
        a = ops.softmax(ait, axis=1)
        s = ops.sum(x * ops.expand_dims(a, -1), axis=1)
        if self.return_attention:
            return s, a
        return s

    def compute_mask(self, x, mask=None):
        return None

    def get_config(self):
        return {**super().get_config(), "units": self.units, "return_attention": self.return_attention}

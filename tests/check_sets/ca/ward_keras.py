"""Attention pooling of vital-sign windows for the ward dashboard (Keras 3).

A learned query per alarm type reads the windows of the last hours.  With
``return_attention=True`` the layer also returns the attention weights
[batch, alarms, windows], drawn as a heat strip under each curve.
"""
import keras
from keras import ops


class AlarmReader(keras.layers.Layer):

    def __init__(self, n_alarms=4, dim=8, **kwargs):
        super().__init__(**kwargs)
        self.n_alarms = n_alarms
        self.dim = dim

    def build(self, input_shape):
        feat = int(input_shape[-1])
        self.queries = self.add_weight(
            name="queries", shape=(self.n_alarms, self.dim), initializer="random_normal")
        self.key_kernel = self.add_weight(
            name="key_kernel", shape=(feat, self.dim), initializer="glorot_uniform")
        self.value_kernel = self.add_weight(
            name="value_kernel", shape=(feat, self.dim), initializer="glorot_uniform")
        self.readout = self.add_weight(
            name="readout", shape=(self.n_alarms, self.dim), initializer="glorot_uniform")
        self.bias = self.add_weight(name="bias", shape=(self.n_alarms,), initializer="zeros")
        self.built = True

    def call(self, windows, recorded=None, return_attention=False):
        """windows [batch, n, feat]; recorded [batch, n] is False where the monitor was off."""
        keys = ops.matmul(windows, self.key_kernel)
        values = ops.matmul(windows, self.value_kernel)
        attn = ops.einsum("ad,bnd->ban", self.queries, keys) / self.dim ** 0.5
        if recorded is not None:
            off = ops.logical_not(ops.cast(recorded, "bool"))
            attn = attn + ops.cast(off, attn.dtype)[:, None, :] * -1e9
        pooled = ops.matmul(ops.softmax(attn, axis=-1), values)
        alarm = ops.sigmoid(ops.sum(pooled * self.readout, axis=-1) + self.bias)
        if return_attention:
            return alarm, attn
        return alarm

    def get_config(self):
        config = super().get_config()
        config.update(n_alarms=self.n_alarms, dim=self.dim)
        return config


if __name__ == "__main__":
    import numpy as np

    layer = AlarmReader()
    x = np.random.default_rng(0).normal(size=(2, 12, 5)).astype("float32")
    alarm, strip = layer(x, return_attention=True)
    print(alarm.shape, strip.shape)

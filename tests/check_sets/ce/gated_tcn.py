"""Gated temporal convolution network for traffic counts (Keras 3).

WaveNet-style stack: each layer is a causal dilated convolution with a tanh filter
and a sigmoid gate, a 1x1 residual and a 1x1 skip connection. The sum of the skips is
turned into a distribution over `n_levels` quantised traffic levels for the next
quarter of an hour.
"""
import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
from keras import layers, ops


class GatedTemporalLayer(layers.Layer):
    def __init__(self, channels, dilation, kernel_size=2, **kwargs):
        super().__init__(**kwargs)
        self.channels = channels
        self.dilation = dilation
        self.kernel_size = kernel_size
        self.both = layers.Conv1D(2 * channels, kernel_size, padding="causal", dilation_rate=dilation)
        self.residual = layers.Conv1D(channels, 1)
        self.skip = layers.Conv1D(channels, 1)

    def build(self, shape):
        self.both.build(shape)
        inner = tuple(shape[:-1]) + (self.channels,)
        self.residual.build(inner)
        self.skip.build(inner)

    def call(self, x):
        f, g = ops.split(self.both(x), 2, axis=-1)
        z = ops.tanh(f) * ops.sigmoid(g)
        return x + self.residual(z), self.skip(z)

    def get_config(self):
        return {**super().get_config(), "channels": self.channels,
                "dilation": self.dilation, "kernel_size": self.kernel_size}


class TrafficTCN(keras.Model):
    def __init__(self, channels=16, dilations=(1, 2, 4, 8), n_levels=10, **kwargs):
        super().__init__(**kwargs)
        self.inp = layers.Conv1D(channels, 1)
        self.stack = [GatedTemporalLayer(channels, d) for d in dilations]
        self.mix = layers.Conv1D(channels, 1, activation="relu")
        self.out = layers.Dense(n_levels)

    def call(self, counts):
        """counts [batch, time, sensors] -> probabilities [batch, time, n_levels]"""
        x = self.inp(counts)
        total = 0.0
        for layer in self.stack:
            x, s = layer(x)
            total = total + s
        return ops.softmax(self.out(self.mix(ops.relu(total))), axis=-1)


def receptive_field(dilations=(1, 2, 4, 8), kernel_size=2):
    return 1 + sum((kernel_size - 1) * d for d in dilations)


if __name__ == "__main__":
    import numpy as np

    model = TrafficTCN()
    p = model(np.random.rand(2, 24, 5).astype("float32"))
    print(p.shape, receptive_field())

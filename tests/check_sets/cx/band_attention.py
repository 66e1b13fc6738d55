"""Weights the spectral bands of hyperspectral pixels (squeeze and excitation)."""
import os

os.environ.setdefault("KERAS_BACKEND", "torch")
import keras
from keras import layers, ops


class BandAttention(layers.Layer):
    """cube [B, H, W, bands] -> same shape, each band multiplied by a number in (0, 1).

    The numbers come from the mean of each band over the picture, through two Dense layers, and
    from a local 3x3 depthwise convolution that gives one more gate per pixel.
    """

    def __init__(self, bands, squeeze=4, **kw):
        super().__init__(**kw)
        self.bands = bands
        self.small = layers.Dense(max(1, bands // squeeze), activation="relu")
        self.large = layers.Dense(bands, activation="sigmoid")
        self.local = layers.DepthwiseConv2D(3, padding="same")

    def call(self, cube):
        summary = ops.mean(cube, axis=(1, 2))
        weights = self.large(self.small(summary))
        weights = ops.reshape(weights, (-1, 1, 1, self.bands))
        attention = ops.sigmoid(self.local(cube))
        return cube * weights * attention

    def compute_output_shape(self, shape):
        return shape

import keras
from keras import ops


class LeafGate(keras.layers.Layer):
    """Conv block for leaf photos (B, H, W, C) with a squeeze gate per channel and
    a 7x7 convolution gate per pixel, both sigmoid."""

    def __init__(self, channels, ratio=4, **kw):
        super().__init__(**kw)
        self.conv = keras.layers.Conv2D(channels, 3, padding="same", data_format="channels_last")
        self.down = keras.layers.Dense(max(1, channels // ratio), activation="relu")
        self.up = keras.layers.Dense(channels)
        self.spot = keras.layers.Conv2D(1, 7, padding="same", data_format="channels_last")

    def call(self, x):
        y = ops.relu(self.conv(x))
        squeezed = ops.mean(y, axis=(1, 2))
        gate = ops.sigmoid(self.up(self.down(squeezed)))
        y = y * gate[:, None, None, :]
        maps = ops.concatenate(
            [ops.mean(y, axis=-1, keepdims=True), ops.max(y, axis=-1, keepdims=True)], axis=-1
        )
        return y * ops.sigmoid(self.spot(maps))

"""Counterfeit detection on banknote scans: windowed attention over print features.

Intaglio lines are local, so pixels attend within windows of size w x w; odd blocks shift
the windows by w // 2 (cyclically), and pixels that were not neighbours before the roll
must not see each other. A learned bias depends on the offset inside the window.
"""
import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np
from keras import layers, ops


def offset_index(w):
    """[w*w, w*w] -> row of the bias table, (2w-1)^2 entries."""
    yx = np.stack(np.meshgrid(np.arange(w), np.arange(w), indexing="ij"), -1).reshape(-1, 2)
    rel = yx[:, None] - yx[None, :] + (w - 1)
    return rel[..., 0] * (2 * w - 1) + rel[..., 1]


def region_map(height, width, w, shift):
    """Number of the contiguous region of each pixel after the roll."""
    rows = np.digitize(np.arange(height), [height - w, height - shift])
    cols = np.digitize(np.arange(width), [width - w, width - shift])
    return 3 * rows[:, None] + cols[None, :]


def to_windows(x, w):
    b, h, wd, c = ops.shape(x)
    x = ops.reshape(x, (b, h // w, w, wd // w, w, c))
    return ops.reshape(ops.transpose(x, (0, 1, 3, 2, 4, 5)), (-1, w * w, c))


def from_windows(x, w, h, wd):
    c = ops.shape(x)[-1]
    x = ops.reshape(x, (-1, h // w, wd // w, w, w, c))
    return ops.reshape(ops.transpose(x, (0, 1, 3, 2, 4, 5)), (-1, h, wd, c))


@keras.saving.register_keras_serializable("banknote")
class WindowInk(layers.Layer):
    """x [B, Hh, Ww, dim] -> same; Hh and Ww divisible by `window`."""

    def __init__(self, dim, heads, window=4, shifted=False, **kw):
        super().__init__(**kw)
        self.dim, self.heads, self.window, self.shifted = dim, heads, window, shifted
        self.shift = window // 2 if shifted else 0
        self.qkv = layers.Dense(3 * dim, name="qkv")
        self.proj = layers.Dense(dim, name="proj")
        self.index = offset_index(window).reshape(-1)

    def build(self, shape):
        self.table = self.add_weight(shape=((2 * self.window - 1) ** 2, self.heads), initializer=keras.initializers.TruncatedNormal(stddev=0.5), name="offset_bias")
        self.qkv.build(shape)
        self.proj.build(tuple(shape[:-1]) + (self.dim,))
        self.allowed = None
        if self.shift:
            r = region_map(shape[1], shape[2], self.window, self.shift)
            w = self.window
            r = r.reshape(shape[1] // w, w, shape[2] // w, w).transpose(0, 2, 1, 3).reshape(-1, w * w)
            self.allowed = r[:, :, None] == r[:, None, :]              # [windows, n, n]
        super().build(shape)

    def call(self, x):
        h, wd = x.shape[1], x.shape[2]
        n, d = self.window ** 2, self.dim // self.heads
        if self.shift:
            x = ops.roll(x, (-self.shift, -self.shift), axis=(1, 2))
        qkv = ops.reshape(self.qkv(to_windows(x, self.window)), (-1, n, 3, self.heads, d))
        q, k, v = ops.unstack(ops.transpose(qkv, (2, 0, 3, 1, 4)), axis=0)
        s = ops.matmul(q * d ** -0.5, ops.swapaxes(k, -1, -2))
        bias = ops.reshape(ops.take(self.table, self.index, axis=0), (n, n, self.heads))
        s = s + ops.transpose(bias, (2, 0, 1))
        if self.allowed is not None:
            m = self.allowed.shape[0]
            s = ops.reshape(s, (-1, m, self.heads, n, n))
            s = ops.where(self.allowed[None, :, None], s, -float("inf"))
            s = ops.reshape(s, (-1, self.heads, n, n))
        y = ops.matmul(ops.softmax(s, axis=-1), v)
        y = ops.reshape(ops.swapaxes(y, 1, 2), (-1, n, self.dim))
        y = from_windows(self.proj(y), self.window, h, wd)
        return ops.roll(y, (self.shift, self.shift), axis=(1, 2)) if self.shift else y

    def get_config(self):
        return {**super().get_config(), "dim": self.dim, "heads": self.heads, "window": self.window, "shifted": self.shifted}


def build_detector(size=(16, 32), dim=12, heads=3):
    scan = keras.Input(size + (4,))                        # RGB + near infrared
    h = layers.Conv2D(dim, 3, padding="same")(scan)
    for i in range(2):
        h = h + WindowInk(dim, heads, shifted=bool(i % 2))(layers.LayerNormalization()(h))
    return keras.Model(scan, layers.Dense(1, activation="sigmoid")(layers.GlobalAveragePooling2D()(h)))


if __name__ == "__main__":
    print(ops.convert_to_numpy(build_detector()(np.random.rand(2, 16, 32, 4).astype("float32"))))

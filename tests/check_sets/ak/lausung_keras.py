"""Keras 3 layers of the speech recogniser (encoder of log-mel frames)."""
import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np
from keras import layers, ops


@keras.saving.register_keras_serializable(package="lausung")
class FrameAttention(layers.Layer):
    """Multi-head self-attention over frames.

    Heads are folded into the batch axis, so that plain 3-D matrix products do. The folded axis
    runs over heads first: all utterances of head 0, then all utterances of head 1, and so on.

    inputs      [N, T, units]
    frame_mask  [N, T], True for frames that hold speech, False for filling at the end
    """

    def __init__(self, units, num_heads=4, dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        if units % num_heads:
            raise ValueError("units must be a multiple of num_heads")
        self.units, self.num_heads, self.rate = units, num_heads, dropout
        self.q_dense = layers.Dense(units, name="q")
        self.k_dense = layers.Dense(units, name="k")
        self.v_dense = layers.Dense(units, name="v")
        self.o_dense = layers.Dense(units, name="o")
        self.drop = layers.Dropout(dropout)

    def build(self, input_shape):
        for d in (self.q_dense, self.k_dense, self.v_dense, self.o_dense):
            d.build(input_shape)
        super().build(input_shape)

    def call(self, inputs, frame_mask=None, training=None):
        h = self.num_heads
        Q, K, V = self.q_dense(inputs), self.k_dense(inputs), self.v_dense(inputs)
        Q_ = ops.concatenate(ops.split(Q, h, axis=2), axis=0)      # [h*N, T, units/h]
        K_ = ops.concatenate(ops.split(K, h, axis=2), axis=0)
        V_ = ops.concatenate(ops.split(V, h, axis=2), axis=0)

        scores = ops.matmul(Q_, ops.transpose(K_, (0, 2, 1)))
        scores = scores / (self.units // h) ** 0.5
        if frame_mask is not None:
            m = ops.repeat(ops.cast(frame_mask, "bool"), h, axis=0)
            m = ops.expand_dims(m, 1)                              # [h*N, 1, T]
            scores = ops.where(m, scores, -1e9)
        probs = self.drop(ops.softmax(scores, axis=-1), training=training)

        out = ops.matmul(probs, V_)
        out = ops.concatenate(ops.split(out, h, axis=0), axis=2)   # [N, T, units]
        return self.o_dense(out)

    def get_config(self):
        return {**super().get_config(), "units": self.units, "num_heads": self.num_heads,
                "dropout": self.rate}


@keras.saving.register_keras_serializable(package="lausung")
class EncoderBlock(layers.Layer):
    def __init__(self, units, num_heads=4, dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        self.units, self.num_heads, self.rate = units, num_heads, dropout
        self.n1 = layers.LayerNormalization(epsilon=1e-6)
        self.n2 = layers.LayerNormalization(epsilon=1e-6)
        self.attn = FrameAttention(units, num_heads, dropout)
        self.up = layers.Dense(4 * units, activation="gelu")
        self.down = layers.Dense(units)

    def build(self, input_shape):
        self.n1.build(input_shape)
        self.n2.build(input_shape)
        self.attn.build(input_shape)
        self.up.build(input_shape)
        self.down.build(tuple(input_shape[:-1]) + (4 * self.units,))
        super().build(input_shape)

    def call(self, x, frame_mask=None, training=None):
        x = x + self.attn(self.n1(x), frame_mask=frame_mask, training=training)
        return x + self.down(self.up(self.n2(x)))

    def get_config(self):
        return {**super().get_config(), "units": self.units, "num_heads": self.num_heads,
                "dropout": self.rate}


def lengths_to_mask(lengths, T):
    return np.arange(T)[None, :] < np.asarray(lengths)[:, None]


def sinusoids(T, units, max_timescale=10000):
    step = np.log(max_timescale) / (units // 2 - 1)
    inv = np.exp(-step * np.arange(units // 2))
    ang = np.arange(T)[:, None] * inv[None, :]
    return np.concatenate([np.sin(ang), np.cos(ang)], axis=1).astype("float32")

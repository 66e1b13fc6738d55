"""Keras 3 layer used in the sourdough rise predictor (camera on the jar, one frame / 5 min)."""
from __future__ import annotations

import keras
from keras import ops


def hydration(water_g: float, flour_g: float, starter_g: float = 0.0, starter_hydration: float = 1.0) -> float:
    """baker's percentage, starter included"""
    starter_flour = starter_g / (1.0 + starter_hydration)
    return (water_g + starter_g - starter_flour) / (flour_g + starter_flour)


class JarAttention(keras.layers.Layer):
    """Multi-head attention of the frames on the temperature log.

    call(frames, log, on=None, training=None)
        frames   (batch, F, c1)
        log      (batch, L, c2)
        on       (batch, L) bool, True = the thermometer was on
    returns
        context  (batch, F, units)
        chart    (batch, heads, F, L), the attention probabilities for the dashboard;
                 every row adds up to one, also while training
    """

    def __init__(self, units: int, heads: int = 2, rate: float = 0.2, **kw):
        super().__init__(**kw)
        self.units, self.heads = units, heads
        self.size = units // heads
        self.q = keras.layers.Dense(units, use_bias=False)
        self.k = keras.layers.Dense(units, use_bias=False)
        self.v = keras.layers.Dense(units, use_bias=False)
        self.o = keras.layers.Dense(units)
        self.drop = keras.layers.Dropout(rate)

    def _heads(self, t):
        t = ops.reshape(t, (-1, ops.shape(t)[1], self.heads, self.size))
        return ops.transpose(t, (0, 2, 1, 3))

    def call(self, frames, log, on=None, training=None):
        q, k, v = self._heads(self.q(frames)), self._heads(self.k(log)), self._heads(self.v(log))
        energy = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) * self.size ** -0.5
        if on is not None:
            keep = ops.cast(on, "bool")[:, None, None, :]
            energy = ops.where(keep, energy, -1e9)
        chart = ops.softmax(energy, axis=-1)
        chart = self.drop(chart, training=training)
        context = ops.transpose(ops.matmul(chart, v), (0, 2, 1, 3))
        context = ops.reshape(context, (-1, ops.shape(frames)[1], self.units))
        return self.o(context), chart


class RisePredictor(keras.Model):
    """height of the dough (cm) per frame"""

    def __init__(self, units: int = 24, heads: int = 2):
        super().__init__()
        self.conv = keras.layers.Conv1D(units, 3, padding="causal", activation="relu")
        self.att = JarAttention(units, heads)
        self.norm = keras.layers.LayerNormalization()
        self.out = keras.layers.Dense(1, activation="softplus")

    def call(self, inputs, training=None):
        frames, log = inputs["frames"], inputs["log"]
        h = self.conv(frames)
        ctx, _ = self.att(h, log, on=inputs.get("on"), training=training)
        return self.out(self.norm(h + ctx))[..., 0]

    def dashboard(self, inputs):
        """(frames, log) chart averaged over the heads, of the first jar"""
        h = self.conv(inputs["frames"])
        return ops.mean(self.att(h, inputs["log"], on=inputs.get("on"))[1][0], axis=0)


def peak_frame(height, tolerance=0.02):
    """first frame after which the dough no longer rises"""
    best = ops.max(height, axis=-1, keepdims=True)
    return ops.argmax(ops.cast(height >= best * (1 - tolerance), "int32"), axis=-1)


if __name__ == "__main__":
    model = RisePredictor()
    batch = {"frames": keras.random.normal((2, 10, 6)), "log": keras.random.normal((2, 15, 3))}
    print(model(batch).shape)

"""Keras 3: drydown of perfumes. Input is a sequence of headspace GC-MS scans.

Aroma molecules evaporate in order, so a scan needs only its neighbours:
`radius` scans on each side plus itself. Works with any backend.
"""
import keras
from keras import ops

PYRAMID = ("tête", "cœur", "fond")


@keras.saving.register_keras_serializable("parfum")
class NeighbourhoodAttention(keras.layers.Layer):
    """Local multi-head self-attention.

    Args:
        heads: number of heads; must divide the number of channels.
        radius: how many scans before and after a scan it can see.

    Call arguments:
        x: (batch, time, channels)
        mask: optional bool (batch, time), True for real scans (Keras convention).
    """

    def __init__(self, heads=4, radius=3, **kwargs):
        super().__init__(**kwargs)
        self.heads = heads
        self.radius = radius
        self.supports_masking = True

    def build(self, shape):
        width = shape[-1]
        self.size = width // self.heads
        init = keras.initializers.GlorotUniform(seed=5)
        self.w_in = self.add_weight(shape=(3, width, self.heads, self.size), initializer=init, name="w_in")
        self.w_out = self.add_weight(shape=(self.heads, self.size, width), initializer=init, name="w_out")

    def call(self, x, mask=None):
        q = ops.einsum("btc,chs->bhts", x, self.w_in[0])
        k = ops.einsum("btc,chs->bhts", x, self.w_in[1])
        v = ops.einsum("btc,chs->bhts", x, self.w_in[2])
        score = ops.einsum("bhis,bhjs->bhij", q, k) / ops.sqrt(ops.cast(self.size, q.dtype))
        t = ops.arange(ops.shape(x)[1])
        near = ops.abs(t[:, None] - t[None, :]) <= self.radius
        near = near[None, None]
        if mask is not None:
            near = ops.logical_and(near, ops.cast(mask, "bool")[:, None, None, :])
        score = ops.where(near, score, -1e9)
        score = score - ops.max(score, axis=-1, keepdims=True)
        weight = ops.exp(score) * ops.cast(near, score.dtype)
        weight = weight / ops.maximum(ops.sum(weight, axis=-1, keepdims=True), 1e-9)
        return ops.einsum("bhij,bhjs,hsc->bic", weight, v, self.w_out)

    def get_config(self):
        return {**super().get_config(), "heads": self.heads, "radius": self.radius}


def drydown_model(scans=32, ions=48, width=32, blocks=2):
    inp = keras.Input((scans, ions), name="headspace")
    x = keras.layers.Masking(0.0)(inp)
    x = keras.layers.Dense(width)(x)
    for i in range(blocks):
        y = keras.layers.LayerNormalization()(x)
        y = NeighbourhoodAttention(4, radius=2 + i)(y)
        x = keras.layers.Add()([x, y])
    x = keras.layers.GlobalAveragePooling1D()(x)
    out = keras.layers.Dense(len(PYRAMID), activation="softmax", name="note")(x)
    return keras.Model(inp, out)


if __name__ == "__main__":
    m = drydown_model()
    m.compile("adam", "sparse_categorical_crossentropy")
    m.summary()

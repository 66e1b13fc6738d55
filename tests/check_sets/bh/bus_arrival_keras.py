"""Bus arrival times from stop sequences (Keras 3, GTFS-RT data of our city).

config/model.py style: one nested dict, overridable from the command line.
"""
import keras
from keras import ops

CFG = {
    "attention": {"num_heads": 4, "key_dim": 8},
    "width": 32,
    "blocks": 2,
    "max_stops": 60,
}


@keras.saving.register_keras_serializable(package="bus")
class StopAttention(keras.layers.Layer):
    """Multi-head self-attention over the stops of one trip.

    inputs: x (batch, stops, width); stop_mask (batch, stops) with True for real
    stops and False for padding. Padded stops are invisible to all others.
    Scores are scaled by 1/sqrt(key_dim).
    """

    def __init__(self, num_heads, key_dim, **kwargs):
        super().__init__(**kwargs)
        self.num_heads, self.key_dim = num_heads, key_dim
        self.supports_masking = True

    def build(self, shape):
        width = shape[-1]
        h, d = self.num_heads, self.key_dim
        mk = lambda n, s: self.add_weight(name=n, shape=s, initializer="glorot_uniform")
        self.wq, self.wk, self.wv = mk("wq", (width, h, d)), mk("wk", (width, h, d)), mk("wv", (width, h, d))
        self.wo = mk("wo", (h, d, width))
        self.scale = self.key_dim ** -0.5

    def call(self, x, stop_mask=None):
        q = ops.einsum("blw,whd->bhld", x, self.wq)
        k = ops.einsum("blw,whd->bhld", x, self.wk)
        v = ops.einsum("blw,whd->bhld", x, self.wv)
        scores = ops.einsum("bhqd,bhkd->bhqk", q, k) / self.scale
        if stop_mask is not None:
            padding = ops.cast(ops.logical_not(ops.cast(stop_mask, "bool")), scores.dtype)
            scores = scores - 1e9 * padding[:, None, :, None]
        probs = ops.softmax(scores, axis=-1)
        ctx = ops.einsum("bhqk,bhkd->bhqd", probs, v)
        return ops.einsum("bhld,hdw->blw", ctx, self.wo)

    def get_config(self):
        cfg = super().get_config()
        cfg.update(num_heads=self.num_heads, key_dim=self.key_dim)
        return cfg


def build_model(cfg=CFG):
    """(features, mask) -> delay in seconds at every stop."""
    n = cfg["max_stops"]
    feats = keras.Input((n, 6), name="features")   # dwell, headway, hour sin/cos, dist, weather
    mask = keras.Input((n,), dtype="bool", name="mask")
    x = keras.layers.Dense(cfg["width"])(feats)
    for i in range(cfg["blocks"]):
        h = keras.layers.LayerNormalization(name=f"ln_a{i}")(x)
        x = x + StopAttention(**cfg["attention"], name=f"att{i}")(h, stop_mask=mask)
        h = keras.layers.LayerNormalization(name=f"ln_b{i}")(x)
        x = x + keras.layers.Dense(cfg["width"], activation="relu")(h)
    out = keras.layers.Dense(1, name="delay")(x)
    return keras.Model([feats, mask], out[..., 0])


def masked_mae(y_true, y_pred):
    ok = ops.cast(ops.isfinite(y_true), "float32")
    err = ops.abs(ops.where(ops.isfinite(y_true), y_true, 0.0) - y_pred)
    return ops.sum(err * ok) / ops.maximum(ops.sum(ok), 1.0)


if __name__ == "__main__":
    m = build_model()
    m.compile("adam", loss=masked_mae)
    m.summary()

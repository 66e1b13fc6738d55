"""Click-through rate with a Deep Interest Network, Keras 3.

The candidate ad "activates" the user's past clicks: a small MLP scores each click
against the candidate, and the pooled history is their weighted sum. We use the
softmax variant of the paper's appendix (weights sum to one over the real clicks).
"""
import keras
from keras import layers, ops


@keras.saving.register_keras_serializable("ctr")
class LocalActivationUnit(layers.Layer):
    """
    call([candidate (B, E), clicks (B, T, E), n_clicks (B,)]) -> (B, E)

    n_clicks: how many leading entries of `clicks` are real; at least one.
    """

    def __init__(self, hidden=(36, 18), **kw):
        super().__init__(**kw)
        self.hidden = tuple(hidden)
        self.mlp = [layers.Dense(h, activation="sigmoid") for h in self.hidden]
        self.score = layers.Dense(1)

    def build(self, input_shape):
        emb = input_shape[0][-1]
        width = 4 * emb
        for d in self.mlp:
            d.build((None, None, width))
            width = d.units
        self.score.build((None, None, width))

    def compute_output_shape(self, input_shape):
        return input_shape[0]

    def call(self, inputs):
        cand, clicks, n_clicks = inputs
        t = ops.shape(clicks)[1]
        c = ops.repeat(ops.expand_dims(cand, 1), t, axis=1)
        h = ops.concatenate([c, clicks, c - clicks, c * clicks], axis=-1)
        for d in self.mlp:
            h = d(h)
        s = ops.squeeze(self.score(h), -1)                          # (B, T)
        real = ops.arange(t)[None, :] < ops.cast(n_clicks, "int32")[:, None]
        s = ops.where(real, s, -1e9)
        w = ops.softmax(s, axis=-1)
        return ops.squeeze(ops.matmul(ops.expand_dims(w, 1), clicks), 1)

    def get_config(self):
        return {**super().get_config(), "hidden": self.hidden}


def build_model(n_items=1000, emb=16, t=20):
    cand = keras.Input((), dtype="int32", name="candidate")
    hist = keras.Input((t,), dtype="int32", name="history")
    n = keras.Input((), dtype="int32", name="n_clicks")
    table = layers.Embedding(n_items, emb)
    c, h = table(cand), table(hist)
    interest = LocalActivationUnit()([c, h, n])
    x = layers.Concatenate()([c, interest])
    x = layers.Dense(32, activation="silu")(x)
    return keras.Model([cand, hist, n], layers.Dense(1, activation="sigmoid")(x))


if __name__ == "__main__":
    build_model().summary()

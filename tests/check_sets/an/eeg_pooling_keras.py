"""Sleep stage model: CNN per epoch, attention over the night (Keras 3, any backend)."""
import keras
from keras import layers, ops


@keras.saving.register_keras_serializable(package="sleep")
class NightAttention(layers.Layer):
    """Multi-head self attention over the 30 s epochs of one night.

    inputs: (batch, epochs, features); valid: (batch, epochs) bool, False after lights on.
    """

    def __init__(self, heads, units, dropout=0.0, **kw):
        super().__init__(**kw)
        self.heads, self.units = heads, units
        self.rate = dropout
        self.supports_masking = True
        self.drop = layers.Dropout(dropout)

    def build(self, shape):
        f = shape[-1]
        mk = lambda n, s: self.add_weight(name=n, shape=s, initializer="glorot_uniform")
        self.Wq = mk("Wq", (f, self.heads * self.units))
        self.Wk = mk("Wk", (f, self.heads * self.units))
        self.Wv = mk("Wv", (f, self.heads * self.units))
        self.Wo = mk("Wo", (self.heads * self.units, f))
        self.built = True

    def _split(self, t):
        n, e = ops.shape(t)[0], ops.shape(t)[1]
        return ops.transpose(ops.reshape(t, (n, e, self.heads, self.units)), (0, 2, 1, 3))

    def call(self, x, valid=None, training=False):
        q = self._split(ops.matmul(x, self.Wq))
        k = self._split(ops.matmul(x, self.Wk))
        v = self._split(ops.matmul(x, self.Wv))
        s = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) / float(self.units) ** 0.5
        if valid is not None:
            keep = ops.cast(valid, "bool")[:, None, None, :]
            s = ops.where(keep, s, -1e30)
        a = self.drop(ops.softmax(s, axis=-1), training=training)
        o = ops.transpose(ops.matmul(a, v), (0, 2, 1, 3))
        o = ops.reshape(o, (ops.shape(x)[0], ops.shape(x)[1], self.heads * self.units))
        return x + ops.matmul(o, self.Wo)

    def get_config(self):
        c = super().get_config()
        c.update(heads=self.heads, units=self.units, dropout=self.rate)
        return c


def epoch_cnn(samples, width=32):
    return keras.Sequential([
        layers.Input((samples, 1)),
        layers.Conv1D(width, 25, strides=6, activation="relu"),
        layers.MaxPooling1D(4),
        layers.Conv1D(width, 5, activation="relu"),
        layers.GlobalAveragePooling1D(),
    ])


def build_model(epochs, samples, stages=5, width=32):
    sig = layers.Input((epochs, samples, 1))
    ok = layers.Input((epochs,), dtype="bool")
    h = layers.TimeDistributed(epoch_cnn(samples, width))(sig)
    h = NightAttention(4, width // 4)(h, valid=ok)
    h = layers.LayerNormalization()(h)
    return keras.Model([sig, ok], layers.Dense(stages, activation="softmax")(h))
